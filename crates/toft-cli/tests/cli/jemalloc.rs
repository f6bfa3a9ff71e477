//! Programs that are written for jemalloc, and what stays outside of Toft where a program calls
//! another allocator.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::*;

/// Debian's named has its memory by `mallocx`, in functions without a name below `isc__mem_get`.
#[test]
fn nameds_call_sites_are_the_callers_of_its_wrappers() {
    let directory = directory();
    let port = port().to_string();
    let folder = directory.path();
    let hosts: String = (0..3000).map(|host| format!("host{host} IN A 10.0.0.1\n")).collect();
    let zone = format!(
        "$TTL 60\n@ IN SOA ns.example. admin.example. 1 60 60 60 60\n@ IN NS ns.example.\n\
         ns IN A 127.0.0.1\n{hosts}"
    );
    fs::write(folder.join("zone.db"), zone).unwrap();
    let settings = format!(
        "options {{ directory \"{}\"; pid-file none; session-keyfile none; recursion no;\n\
         listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};\n\
         dnssec-validation no; }}; controls {{ }};\n\
         zone \"example\" {{ type primary; file \"zone.db\"; }};\n",
        folder.display()
    );
    fs::write(folder.join("named.conf"), settings).unwrap();
    let profile = folder.join("profile.json");
    let child = toft()
        .args(["run", "--profile", text(&profile), "--", "named", "-g", "-n", "2", "-c"])
        .arg(folder.join("named.conf"))
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.join("log")).unwrap())
        .spawn()
        .unwrap();
    until("an answer", || {
        let mut dig = Command::new("dig");
        dig.args(["@127.0.0.1", "-p", &port, "+short", "+tries=1", "host2999.example", "A"]);
        (stdout(&dig.output().unwrap()) == "10.0.0.1\n").then_some(())
    });
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(child.id().cast_signed()),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    let output = child.wait_with_output().unwrap();
    let log = fs::read_to_string(folder.join("log")).unwrap();
    assert_eq!(output.status.code(), Some(0), "{log}");
    assert!(log.contains("Toft replaces its malloc, mallocx and mallctl; going on"), "{log}");
    assert!(!log.contains("were not checked"), "{log}");
    let page: Value = serde_json::from_slice(&fs::read(&profile).unwrap()).unwrap();
    let rows = page["rows"].as_array().unwrap();
    let of = |part: &str| {
        let is = |row: &&Value| row["module"].as_str().is_some_and(|file| file.contains(part));
        rows.iter().filter(is).collect::<Vec<_>>()
    };
    let bytes = |rows: &[&Value]| rows.iter().map(|row| number(&row["allocated"])).sum::<u64>();
    // Without wrappers one call in libisc has all of the zone.
    let (dns, isc) = (of("/libdns-"), of("/libisc-"));
    assert!(dns.len() > 30, "{} sites in libdns: {page}", dns.len());
    assert!(bytes(&dns) > 1 << 20, "{} bytes of libdns", bytes(&dns));
    assert!(!isc.is_empty());
    let names: Vec<&str> = isc.iter().filter_map(|row| row["function"].as_str()).collect();
    let wrappers = ["isc__mem_get", "isc__mem_allocate", "isc__mempool_get", "isc__mem_strdup"];
    assert!(!names.iter().any(|name| wrappers.contains(name)), "{names:?}");
}

/// The program itself calls only `malloc`; a library of it has blocks by other functions.
#[test]
fn a_library_that_calls_another_malloc_gets_no_all_clear() {
    let directory = directory();
    let folder = directory.path();
    let other = "#include <stdlib.h>\nvoid *mi_heap_malloc(void *h, size_t n) { (void)h; return \
        malloc(n); }\nvoid mi_free(void *p) { free(p); }";
    compile(folder, "libother.so", other, &["-shared", "-fPIC"]);
    let path = format!("-Wl,-rpath,{0}", folder.display());
    let user = "#include <stddef.h>\nvoid *mi_heap_malloc(void *, size_t); void mi_free(void *);\n\
        void use(void) { mi_free(mi_heap_malloc(0, 100)); }";
    let program = "void use(void); int main(void) { use(); return 0; }";
    let other = folder.join("libother.so");
    let flags = ["-shared", "-fPIC", text(&other), &path];
    let library = compile(folder, "libcalls.so", user, &flags);
    let program = compile(folder, "program", program, &[text(&library), &path]);
    for options in [&["--leaks"][..], &["--strict", "--leaks"]] {
        let output = run(options, &[text(&program)]);
        let page = stderr(&output);
        assert_eq!(output.status.code(), Some(124), "{page}");
        let line = format!("toft: {} brings its own malloc: blocks of", library.display());
        assert!(page.contains(&line) && !page.contains("no leaks"), "{page}");
    }
    assert_clean(&run(&[], &[text(&program)]));
}

/// tcmalloc's figures are of tcmalloc, and its blocks are all Toft's.
#[test]
fn calls_of_malloc_extension_are_named() {
    let directory = directory();
    let folder = directory.path();
    let library = "void MallocExtension_ReleaseFreeMemory(void) {}";
    let soname = "-Wl,-soname,libtcmalloc_minimal.so.4";
    let library =
        compile(folder, "libtcmalloc_minimal.so.4", library, &["-shared", "-fPIC", soname]);
    let path = format!("-Wl,-rpath,{0}", folder.display());
    let source = "void MallocExtension_ReleaseFreeMemory(void);\n\
        int main(void) { MallocExtension_ReleaseFreeMemory(); return 0; }";
    let program = compile(folder, "extends", source, &[text(&library), &path]);
    let page = stderr(&ends_with(0, run(&["--leaks"], &[text(&program)])));
    for part in [
        "is linked against another malloc (libtcmalloc_minimal.so.4): Toft replaces its malloc and \
         operator new, and no other function of it; going on",
        "calls tcmalloc's MallocExtension: its figures and releases are of tcmalloc, not of Toft; \
         going on",
        "no leaks",
    ] {
        assert!(page.contains(part), "{page}");
    }
}

#[test]
fn the_doctor_names_preloaded_mallocs_and_what_stays_outside() {
    let row = |preloaded: Option<&str>| {
        let mut command = toft();
        command.args(["doctor", "--json"]);
        if let Some(name) = preloaded {
            command.env("LD_PRELOAD", name);
        }
        let page: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        let rows = page["rows"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == "other mallocs").unwrap().clone()
    };
    assert_eq!(row(None)["found"], "none preloaded");
    assert_contains(
        row(None)["meaning"].as_str().unwrap(),
        &["mallocx and mallctl are replaced", "mi_malloc", "MallocExtension", "stay outside"],
    );
    let directory = directory();
    let library = compile(directory.path(), "libmimalloc.so.2", "int m;", &["-shared", "-fPIC"]);
    let found = row(Some(text(&library)));
    assert_eq!(found["found"], "preloaded: libmimalloc.so.2");
}
