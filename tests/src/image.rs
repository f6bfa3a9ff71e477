//! What the library's file says about itself, through `nm` and `readelf`.

use crate::library::{build_under_test, is_secure};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

fn output(program: &str, arguments: &[&str], file: &Path) -> Result<String, String> {
    let out = Command::new(program)
        .args(arguments)
        .arg(file)
        .env("LC_ALL", "C")
        .output()
        .map_err(|e| format!("{program}: {e}"))?;
    if !out.status.success() {
        return Err(format!(
            "{program} {}: {}",
            file.display(),
            String::from_utf8_lossy(&out.stderr)
        ));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// The last word of each line, without a symbol version.
fn names(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter_map(|l| l.split_whitespace().last())
        .filter(|n| !n.ends_with(':'))
        .map(|n| n.split('@').next().unwrap_or(n).to_owned())
        .collect()
}

/// The words of a list in `abi/`, without its comments.
pub fn list(name: &str) -> Result<BTreeSet<String>, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("abi").join(name);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(text.lines().filter(|l| !l.starts_with('#') && !l.is_empty()).map(str::to_owned).collect())
}

/// The library exports exactly the list: nothing is missing and nothing else leaks out.
pub fn exports_the_list(library: &Path) -> Result<(), String> {
    let text = output("nm", &["-D", "--defined-only"], library)?;
    // A version node is listed as an absolute symbol.
    let symbols: Vec<_> =
        text.lines().filter(|l| l.split_whitespace().nth(1) != Some("A")).collect();
    let (found, wanted) = (names(&symbols.join("\n")), list("symbols.txt")?);
    let missing: Vec<_> = wanted.difference(&found).collect();
    let more: Vec<_> = found.difference(&wanted).collect();
    if missing.is_empty() && more.is_empty() {
        return Ok(());
    }
    Err(format!("not exported: {missing:?}\nnot in the list: {more:?}"))
}

/// The library takes from others no more than the list allows, and says of each name which version
/// it means: the loader takes the oldest of one that does not.
pub fn needs_no_more_than_the_list(library: &Path) -> Result<(), String> {
    let text = output("nm", &["-D", "--undefined-only"], library)?;
    let allowed = list("undefined.txt")?;
    let more: Vec<_> = names(&text).difference(&allowed).cloned().collect();
    if !more.is_empty() {
        return Err(format!("undefined and not allowed: {more:?}"));
    }
    let any: Vec<_> =
        text.lines().filter(|l| l.contains(" U ") && !l.contains('@')).map(str::trim).collect();
    if any.is_empty() { Ok(()) } else { Err(format!("of whatever version: {any:?}")) }
}

/// No panic can start inside malloc: the machinery is not in the library.
pub fn has_no_panic(library: &Path) -> Result<(), String> {
    let text = output("nm", &[], library)?;
    if !text.lines().any(|l| l.ends_with(" malloc")) {
        return Err("stripped: its symbols cannot be looked at".into());
    }
    let found: Vec<_> = text
        .lines()
        .filter(|l| l.contains("core9panicking") || l.contains("core..panicking"))
        .collect();
    if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
}

/// The headers that the loader acts on: the name, read-only relocations, no executable stack, no
/// text relocations, initial-exec TLS of a few bytes, no library but libc.
pub fn headers_are_right(library: &Path) -> Result<(), String> {
    let dynamic = output("readelf", &["-dW"], library)?;
    let segments = output("readelf", &["-lW"], library)?;
    let mut wrong = Vec::new();
    let soname = build_under_test().soname();
    if !dynamic.contains(&format!("soname: [{soname}]")) {
        wrong.push(format!("the soname is not {soname}"));
    }
    if dynamic.contains("TEXTREL") {
        wrong.push("it has text relocations".to_owned());
    }
    if !dynamic.contains("BIND_NOW") && !dynamic.contains("NOW") {
        wrong.push("it binds lazily, so its GOT stays writable".to_owned());
    }
    if !segments.contains("GNU_RELRO") {
        wrong.push("no part of it is read-only after relocation".to_owned());
    }
    if segments.lines().any(|l| l.contains("GNU_STACK") && l.contains("RWE")) {
        wrong.push("it asks for an executable stack".to_owned());
    }
    for line in dynamic.lines().filter(|l| l.contains("(NEEDED)")) {
        if !["libc.so.6", "ld-linux-x86-64.so.2", "libgcc_s.so.1"].iter().any(|n| line.contains(n))
        {
            wrong.push(format!("it needs {line}"));
        }
    }
    if let Some(tls) = segments.lines().find(|l| l.trim_start().starts_with("TLS")) {
        let size = tls.split_whitespace().nth(5).unwrap_or("");
        let size = u64::from_str_radix(size.trim_start_matches("0x"), 16).unwrap_or(u64::MAX);
        if size > 64 {
            wrong.push(format!("it takes {size} bytes of static TLS"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// What the loader leaves writable, and the start does not seal: in the default build the probes'
/// semaphores, which are on a separate page; in the secure one nothing. Whole pages of `.data`
/// and `.bss` are the start's.
pub fn only_semaphores_stay_writable(library: &Path) -> Result<(), String> {
    const PAGE: u64 = 4096;
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or(0);
    let segments = output("readelf", &["-lW"], library)?;
    let relro = segments.lines().find(|line| line.contains("GNU_RELRO"));
    let words: Vec<&str> = relro.ok_or("no relro")?.split_whitespace().collect();
    let sealed = number(words[2])..(number(words[2]) + number(words[5])).next_multiple_of(PAGE);
    let sections = output("readelf", &["-SW"], library)?;
    let mut found = Vec::new();
    for line in sections.lines() {
        let Some((_, line)) = line.split_once(']') else { continue };
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, kind, at, _, size, _, flags, ..] = words[..] else { continue };
        let (at, size) = (number(at), number(size));
        let aside = sealed.contains(&at) || kind == "NULL" || flags.contains('T');
        if !flags.contains('W') || aside || (at % PAGE == 0 && size % PAGE == 0) {
            continue;
        }
        found.push((name, size));
    }
    let wanted: &[(&str, u64)] = if is_secure() { &[] } else { &[(".probes", 8)] };
    if found == wanted { Ok(()) } else { Err(format!("left writable: {found:?}, not {wanted:?}")) }
}
