//! Programs that bring their own malloc get no all-clear, and programs that do not are not taken
//! for such.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use crate::common::*;

/// A Rust program with this global allocator.
fn rust(directory: &Path, name: &str, allocator: &str, flags: &[&str]) -> PathBuf {
    let body = "fn main() { let v: Vec<u32> = (0..1000).collect(); println!(\"{}\", v.len()); }";
    let source = format!("{allocator}\n{body}\n");
    let source = file(directory, &format!("{name}.rs"), source.as_bytes(), 0o644);
    build(&source, name, &[&["rustc", "--edition=2021"], flags].concat())
}

/// Hands out what a mapping has, as an allocator that is linked in does.
const OWN: &str = r#"
use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
extern "C" { fn mmap(a: *mut u8, l: usize, p: i32, f: i32, d: i32, o: i64) -> *mut u8; }
static NEXT: AtomicUsize = AtomicUsize::new(0);
struct Own;
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, l: Layout) -> *mut u8 {
        if NEXT.load(Relaxed) == 0 {
            NEXT.store(mmap(std::ptr::null_mut(), 1 << 26, 3, 0x4022, -1, 0) as usize, Relaxed);
        }
        let n = NEXT.fetch_add(l.size() + l.align(), Relaxed);
        ((n + l.align() - 1) & !(l.align() - 1)) as *mut u8
    }
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
#[global_allocator]
static OWN: Own = Own;
"#;

/// Counts, and has all from the C library.
const COUNTING: &str = r#"
use std::alloc::{GlobalAlloc, Layout, System};
struct Counting;
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, l: Layout) -> *mut u8 { System.alloc(l) }
    unsafe fn dealloc(&self, p: *mut u8, l: Layout) { System.dealloc(p, l) }
}
#[global_allocator]
static COUNTING: Counting = Counting;
"#;

/// That each option which promises an answer ends with 124 and says why, and that none is taken for
/// an all-clear.
#[track_caller]
fn assert_no_all_clear(directory: &Path, program: &str, file: &str) {
    let profile = directory.join("profile.toft");
    for options in
        [&["--leaks"][..], &["--leaks", "--strict"], &["--strict"], &["--profile", text(&profile)]]
    {
        let output = run(options, &[program]);
        let page = stderr(&output);
        assert_eq!(output.status.code(), Some(124), "{options:?}: {page}");
        let line =
            format!("toft: {file} brings its own malloc: blocks of that malloc were not checked\n");
        assert!(page.contains(&line), "{options:?}: {page}");
        assert!(!page.contains("no leaks"), "{options:?}: {page}");
    }
    let page = stderr(&ends_with(124, run(&["--leaks", "--json"], &[program])));
    assert!(page.contains(&format!("\"own_malloc\":\"{file}\"")), "{page}");
    // Without them it is a warning.
    let output = ends_with(0, run(&[], &[program]));
    let page = stderr(&output);
    assert!(page.contains(&format!("toft: {file} brings its own malloc (")), "{page}");
    assert!(!page.contains("were not checked"), "{page}");
    let page = stderr(&run(&["--stats"], &[program]));
    let line = format!("  unseen   blocks of the malloc that {file} brings\n");
    assert!(page.contains(&line), "{page}");
    let page = stderr(&run(&["--stats", "--json"], &[program]));
    assert!(page.contains(&format!("\"own_malloc\":\"{file}\"")), "{page}");
}

#[track_caller]
fn assert_all_clear(program: &Path) {
    let output = run(&["--leaks", "--strict"], &[text(program)]);
    let page = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{}: {page}", program.display());
    assert_eq!(page.lines().count(), 1, "{}: {page}", program.display());
    assert!(page.starts_with("toft: no leaks"), "{}: {page}", program.display());
    assert!(!page.contains("anonymous"), "{}: {page}", program.display());
}

#[test]
fn a_rust_program_with_a_global_allocator_of_its_own_gets_no_all_clear() {
    let directory = directory();
    let bare = &["-O", "-Cstrip=symbols", "-Clto=fat", "-Ccodegen-units=1"][..];
    for (name, flags) in [("plain", &[][..]), ("fast", &["-O"]), ("bare", bare)] {
        let program = rust(directory.path(), name, OWN, flags);
        assert_no_all_clear(directory.path(), text(&program), text(&program));
    }
}

#[test]
fn rust_programs_that_have_their_memory_from_libc_are_cleared() {
    let directory = directory();
    for (name, allocator, flags) in [
        ("default", "", &[][..]),
        ("default-fast", "", &["-O", "-Clto=fat", "-Ccodegen-units=1"]),
        ("default-bare", "", &["-O", "-Cstrip=symbols"]),
        (
            "default-bare-fast",
            "",
            &["-O", "-Cstrip=symbols", "-Clto=fat", "-Ccodegen-units=1", "-Cpanic=abort"],
        ),
        ("counting", COUNTING, &[]),
        ("counting-bare", COUNTING, &["-O", "-Cstrip=symbols"]),
        ("counting-fast", COUNTING, &["-O", "-Clto=fat", "-Ccodegen-units=1"]),
    ] {
        assert_all_clear(&rust(directory.path(), name, allocator, flags));
    }
}

#[test]
fn programs_in_c_with_names_like_an_allocators_are_cleared() {
    let directory = directory();
    let source = "#include <stdlib.h>\n\
        int mi_option(void) { return 0; }\nvoid *mi_malloc(int n) { return malloc(n); }\n\
        int my_malloc(void) { return 0; }\nvoid my_free(void) {}\nint je_freeze(void) { return 0; }\n\
        int main(void) { free(mi_malloc(10)); return mi_option(); }";
    assert_all_clear(&compile(directory.path(), "names", source, &[]));
    assert_all_clear(&compile(directory.path(), "stripped", source, &["-s"]));
}

/// Each build of CPython contains mimalloc, and those without a global lock allocate from it.
#[test]
fn cpython_is_cleared_if_it_has_a_global_lock() {
    let directory = directory();
    let source = "#include <stdlib.h>\n\
        void *mi_malloc(int n) { return malloc(n); }\nvoid mi_free(void *p) { free(p); }\n\
        int main(void) { mi_free(mi_malloc(10)); return 0; }";
    for name in ["python3.14", "python3.14d"] {
        let program = compile(directory.path(), name, source, &[]);
        let page = stderr(&ends_with(0, run(&["--leaks", "--strict"], &[text(&program)])));
        assert!(page.contains("toft: no leaks") && !page.contains("own malloc"), "{page}");
    }
    let free_threaded = compile(directory.path(), "python3.14t", source, &[]);
    assert_no_all_clear(directory.path(), text(&free_threaded), text(&free_threaded));
}

/// Toft does not replace an allocator that a library exports under other names. A weak name may be
/// missing.
#[test]
fn a_program_that_calls_a_librarys_own_malloc_gets_no_all_clear() {
    let directory = directory();
    let library = "#include <stdlib.h>\nvoid *mi_malloc(size_t n) { return malloc(n); }\n\
        void mi_free(void *p) { free(p); }";
    compile(directory.path(), "libother.so", library, &["-shared", "-fPIC"]);
    let path = format!("-Wl,-rpath,{0}", directory.path().display());
    let source = "#include <stddef.h>\nvoid *mi_malloc(size_t n) WEAK; void mi_free(void *p) WEAK;\n\
        int main(void) { if (mi_malloc && mi_free) mi_free(mi_malloc(100)); return 0; }";
    let other = directory.path().join("libother.so");
    let program = compile(directory.path(), "calls", source, &["-DWEAK=", text(&other), &path]);
    assert_no_all_clear(directory.path(), text(&program), text(&program));
    let weak = "-DWEAK=__attribute__((weak))";
    assert_all_clear(&compile(directory.path(), "weak", source, &[weak]));
}

#[test]
fn a_stripped_program_is_known_by_what_its_allocator_says() {
    let directory = directory();
    let source = "#include <stdio.h>\n\
        int main(int n, char **v) { if (n > 5) fputs(\"mimalloc: error: \", stderr); (void)v; return 0; }";
    let program = compile(directory.path(), "bare", source, &["-s"]);
    assert_no_all_clear(directory.path(), text(&program), text(&program));
}

/// A browser's wrapper: the shell script ends as the binary, which brings its own malloc.
#[test]
fn a_script_that_ends_as_such_a_program_gets_no_all_clear() {
    let directory = directory();
    let source = "void *mi_malloc(unsigned long n) { return (void *)n; }\n\
        void mi_free(void *p) { (void)p; }\nint main(void) { return 0; }";
    let program = compile(directory.path(), "browser", source, &[]);
    let folder = directory.path().display();
    let wrapper = format!(
        "#!/bin/sh\nAPPNAME=browser\nLIBDIR={folder}\nif true; then\n  exec $LIBDIR/$APPNAME $FLAGS \"$@\"\nfi\n"
    );
    let script = file(directory.path(), "wrapper", wrapper.as_bytes(), 0o755);
    assert_no_all_clear(directory.path(), text(&script), text(&program));
}

/// The real one; it is not started.
#[test]
fn the_browser_is_named_through_its_wrapper() {
    let output = run(&["--dry-run"], &["chromium"]);
    let page = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{page}");
    let line =
        "brings its own malloc and exports it: its own takes precedence over a preloaded one";
    assert!(page.contains(line), "{page}");
    assert!(page.lines().any(|text| text.contains("/chromium brings")), "{page}");
}

/// A virtual machine's heap and an unknown malloc look the same. A program may have much memory
/// that Toft has not allocated. Each report then gives the size of that memory, which was not
/// checked. The exit status is 124 only with `--strict` and a report.
#[test]
fn memory_that_is_not_tofts_is_reported_at_exit() {
    let directory = directory();
    let source = "#include <stdlib.h>\n#include <string.h>\n#include <sys/mman.h>\n\
        int main(int n, char **v) { size_t bytes = (n > 1 ? 200 : 1) << 20;\n\
        char *p = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n\
        memset(p, 1, bytes); free(malloc(100)); return n > 2 ? atoi(v[2]) : 0; }";
    let program = compile(directory.path(), "machine", source, &[]);
    // As much memory from malloc, and no other.
    let blocks = "#include <stdlib.h>\n#include <string.h>\nchar *p; int main(void) {\n\
        p = malloc(200 << 20); memset(p, 1, 200 << 20); return 0; }";
    let blocks = compile(directory.path(), "blocks", blocks, &[]);
    let profile = directory.path().join("profile.toft");
    let profile = text(&profile);
    for (options, status) in [
        (&["--leaks"][..], 0),
        (&["--leaks", "--json"], 0),
        (&["--profile", profile], 0),
        (&["--strict"], 0),
        (&["--leaks", "--strict"], 124),
        (&["--leaks", "--strict", "--json"], 124),
        (&["--profile", profile, "--strict"], 124),
    ] {
        let output = run(options, &[text(&program), "much"]);
        let page = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{options:?}: {page}");
        let line = "MiB of anonymous memory are not Toft's and were not checked: mappings, \
            stacks or static data of the program, or an unknown malloc\n";
        assert!(page.contains(line), "{options:?}: {page}");
        assert!(!page.contains("brings its own"), "{options:?}: {page}");
        let clear = page.lines().find(|line| line.contains("no leaks"));
        let qualified = "MiB of other anonymous memory were not scanned";
        assert!(clear.is_none_or(|line| line.ends_with(qualified)), "{options:?}: {page}");
        assert_eq!(clear.is_some(), options == ["--leaks"], "{options:?}: {page}");
        // The program's own status stays.
        let failed = run(options, &[text(&program), "much", "7"]);
        assert_eq!(failed.status.code(), Some(7), "{options:?}: {}", stderr(&failed));
        for correct in [&program, &blocks] {
            let page = stderr(&ends_with(0, run(options, &[text(correct)])));
            assert!(!page.contains("anonymous"), "{options:?}: {page}");
        }
    }
    // Without these options nothing is promised.
    assert_clean(&run(&[], &[text(&program), "much"]));
    assert_all_clear(&program);
}

/// The comparison opens files, for which a filter of the program's own may kill.
#[test]
fn a_program_under_its_own_filter_is_not_compared() {
    let source = "#include <stddef.h>\n#include <linux/filter.h>\n#include <linux/seccomp.h>\n\
        #include <sys/prctl.h>\n#include <sys/syscall.h>\n\
        int main(void) { struct sock_filter kill[] = {\n\
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),\n\
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),\n\
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),\n\
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };\n\
        struct sock_fprog filter = { 4, kill };\n\
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)\n\
            || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter); }";
    let program = compiled("filtered", source, &[]);
    assert_clean(&run(&["--strict"], &[text(&program)]));
}

/// `free` of another namespace's C library gets a block of Toft's; the twin gives it a block from
/// that library.
#[test]
fn a_block_that_another_namespaces_libc_frees_is_explained() {
    let directory = directory();
    let source = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdlib.h>\n#include <string.h>\n\
        int main(int n, char **v) { (void)v;\n\
        void *libc = dlmopen(LM_ID_NEWLM, \"libc.so.6\", RTLD_NOW);\n\
        void *(*theirs)(size_t) = dlsym(libc, \"malloc\");\n\
        void (*release)(void *) = dlsym(libc, \"free\");\n\
        char *p = n > 1 ? calloc(1000, 1000) : theirs(100); release(p); return 0; }";
    // What lies before the block decides how it ends.
    let ends = [Some(libc::SIGABRT), Some(libc::SIGSEGV)];
    let program = compile(directory.path(), "crosses", source, &["-ldl"]);
    assert_clean(&run(&[], &[text(&program)]));
    let output = run(&[], &[text(&program), "cross"]);
    let page = stderr(&output);
    assert!(ends.contains(&output.status.signal()), "{page}");
    assert!(page.contains(" calls dlmopen: if free() ended it"), "{page}");
    // A program that aborts, and has no second C library, gets no message.
    let source = "#include <stdlib.h>\nint main(void) { abort(); }";
    let output = run(&[], &[text(&compile(directory.path(), "aborts", source, &[]))]);
    assert_eq!((output.status.signal(), stderr(&output).as_str()), (Some(6), ""));
}

/// With TOFT_DEEPBIND=0 a library that is opened with RTLD_DEEPBIND frees by libc what libc's
/// `strdup` has from Toft.
#[test]
fn a_block_that_a_deeply_bound_library_frees_is_explained_if_toft_leaves_it() {
    let directory = directory();
    let library = "#include <stdlib.h>\n#include <string.h>\n\
        void own(void) { free(strdup(\"a string of some length\")); }";
    let library = compile(directory.path(), "own.so", library, &["-shared", "-fPIC"]);
    let source = "#define _GNU_SOURCE\n#include <dlfcn.h>\n\
        int main(int n, char **v) { void *own = n > 1 ? dlopen(v[1], RTLD_NOW | RTLD_DEEPBIND) : 0;\n\
        if (!own) return 1; ((void (*)(void))dlsym(own, \"own\"))(); return 0; }";
    let program = compile(directory.path(), "opens", source, &["-ldl"]);
    let words = [text(&program), text(&library)];
    assert_clean(&run(&[], &words));
    assert_clean(&run(&["--env=TOFT_DEEPBIND=1"], &words));
    let output = run(&["--env=TOFT_DEEPBIND=0"], &words);
    let page = stderr(&output);
    let ends = [Some(libc::SIGABRT), Some(libc::SIGSEGV)];
    assert!(ends.contains(&output.status.signal()), "{page}");
    assert!(page.contains(" ran with TOFT_DEEPBIND=0: if free() ended it"), "{page}");
}
