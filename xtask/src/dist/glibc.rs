//! The oldest C library that the artifacts run on: stub libraries to link with, and the check of
//! what was linked.
//!
//! The linker binds a function to the newest version that the libraries on its path have. So it is
//! given stubs: libraries without code that have the names of the system's, with no version above
//! [`FLOOR`]. Functions that moved into `libc.so.6` in glibc 2.32 to 2.34 are in the stub of the
//! library that they came from.

use super::machine::Machine;
use super::{emptied, run, text, write};
use crate::files;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest glibc that programs and libraries of the artifacts run on: that of Rust's own
/// standard library.
pub const FLOOR: Version = Version(2, 17, 0);

/// A version of glibc's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u32, u32, u32);

impl Version {
    /// Reads `GLIBC_2.2.5`.
    fn parse(text: &str) -> Option<Version> {
        let mut parts = text.strip_prefix("GLIBC_")?.split('.').map(str::parse);
        let mut next = || parts.next().unwrap_or(Ok(0)).ok();
        Some(Version(next()?, next()?, next()?))
    }

    /// `2.17`, as users know it.
    pub fn number(&self) -> String {
        self.to_string().replace("GLIBC_", "")
    }
}

/// `GLIBC_2.17`: the name of the version in libraries.
impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GLIBC_{}.{}", self.0, self.1)?;
        if self.2 > 0 { write!(f, ".{}", self.2) } else { Ok(()) }
    }
}

/// The libraries that functions moved from, with the beginnings of the names of those functions.
/// All others that moved are libpthread's.
const MOVED: [(&str, &[&str]); 3] = [
    ("libdl.so.2", &["dl"]),
    ("librt.so.1", &["aio_", "lio_", "mq_", "shm_", "timer_", "__mq_"]),
    ("libutil.so.1", &["forkpty", "openpty", "login"]),
];
const LIBC: &str = "libc.so.6";
const THREADS: &str = "libpthread.so.0";

/// In these versions functions moved into `libc.so.6`.
const MOVES: [Version; 3] = [Version(2, 32, 0), Version(2, 33, 0), Version(2, 34, 0)];

/// Functions that older versions do not export: those that they have under another name, and system
/// calls.
const OLDER: &str = r#"
#include <sys/syscall.h>
struct stat64;
long syscall(long, ...);
int __xstat64(int, const char *, struct stat64 *);
int __lxstat64(int, const char *, struct stat64 *);
int __fxstat64(int, int, struct stat64 *);
int __fxstatat64(int, int, const char *, struct stat64 *, int);
#ifdef __x86_64__
#define FORM 1
#else
#define FORM 0
#endif
#define HIDDEN __attribute__((visibility("hidden")))
HIDDEN int stat64(const char *path, struct stat64 *to) { return __xstat64(FORM, path, to); }
HIDDEN int lstat64(const char *path, struct stat64 *to) { return __lxstat64(FORM, path, to); }
HIDDEN int fstat64(int file, struct stat64 *to) { return __fxstat64(FORM, file, to); }
HIDDEN int fstatat64(int folder, const char *path, struct stat64 *to, int flags) {
    return __fxstatat64(FORM, folder, path, to, flags);
}
HIDDEN long getrandom(void *to, unsigned long bytes, unsigned flags) {
    return syscall(SYS_getrandom, to, bytes, flags);
}
HIDDEN int memfd_create(const char *name, unsigned flags) {
    return syscall(SYS_memfd_create, name, flags);
}
"#;

/// One symbol of a dynamic table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Symbol {
    name: String,
    version: Version,
    /// The version that a new program is bound to.
    default: bool,
    weak: bool,
    defined: bool,
    /// As readelf writes it: FUNC, IFUNC, OBJECT, TLS.
    kind: String,
    size: String,
}

/// The versioned symbols of glibc in what `readelf --dyn-syms` prints.
fn symbols(text: &str) -> Vec<Symbol> {
    let symbol = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, _, size, kind, binding, _, section, name] = *words.get(..8)? else { return None };
        let (name, version) = name.split_once('@')?;
        Some(Symbol {
            name: name.into(),
            version: Version::parse(version.trim_start_matches('@'))?,
            default: version.starts_with('@'),
            weak: binding == "WEAK",
            defined: section != "UND",
            kind: kind.into(),
            size: size.into(),
        })
    };
    text.lines().filter_map(symbol).collect()
}

/// The dynamic symbols of a file.
fn read(path: &Path) -> Result<Vec<Symbol>, String> {
    let mut readelf = Command::new("readelf");
    Ok(symbols(&text(readelf.args(["--wide", "--dyn-syms"]).arg(path))?))
}

/// What is wrong with a file to be shipped: the symbols that an older glibc than [`FLOOR`] has not.
/// A weak one may be missing.
pub fn too_new(path: &Path) -> Result<Vec<String>, String> {
    Ok(above(&read(path)?, FLOOR))
}

fn above(symbols: &[Symbol], floor: Version) -> Vec<String> {
    let newer = |symbol: &&Symbol| !symbol.defined && !symbol.weak && symbol.version > floor;
    let named = |symbol: &Symbol| format!("{}@{}", symbol.name, symbol.version);
    symbols.iter().filter(newer).map(named).collect()
}

/// The symbols of a stub, and which library it is.
type Stubs = BTreeMap<&'static str, BTreeMap<String, Symbol>>;

/// For each symbol its newest version that is no newer than the floor.
fn older(library: &'static str, symbols: &[Symbol], floor: Version) -> Stubs {
    let mut stubs = Stubs::from([(library, BTreeMap::new())]);
    for symbol in symbols.iter().filter(|symbol| symbol.defined && symbol.version <= floor) {
        let later = |other: &Symbol| {
            other.default && other.name == symbol.name && MOVES.contains(&other.version)
        };
        let moved = library == LIBC && symbols.iter().any(later);
        let from = |names: &[&str]| names.iter().any(|start| symbol.name.starts_with(start));
        let origin = MOVED.iter().find(|(_, names)| from(names)).map_or(THREADS, |(from, _)| *from);
        let stub = stubs.entry(if moved { origin } else { library }).or_default();
        let newest = stub.entry(symbol.name.clone()).or_insert_with(|| symbol.clone());
        if newest.version < symbol.version {
            *newest = symbol.clone();
        }
    }
    stubs
}

/// Writes the stubs for a machine; returns their folder.
pub fn stubs(machine: &Machine, folder: PathBuf) -> Result<PathBuf, String> {
    emptied(&folder)?;
    let compiler = machine.compiler();
    let found = |name: &str| -> Result<PathBuf, String> {
        let said = text(Command::new(&compiler).arg(format!("-print-file-name={name}")))?;
        Ok(PathBuf::from(said.trim()))
    };
    for library in [LIBC, "libm.so.6"] {
        for (name, symbols) in older(library, &read(&found(library)?)?, FLOOR) {
            assemble(&compiler, &folder, name, &symbols)?;
        }
    }
    write(&folder.join("older.c"), OLDER)?;
    let object = folder.join("older.o");
    run(Command::new(&compiler)
        .args(["-O2", "-fPIC", "-fno-asynchronous-unwind-tables", "-c", "-o"])
        .args([&object, &folder.join("older.c")]))?;
    run(Command::new("ar").arg("rcsD").args([&folder.join("libolder.a"), &object]))?;
    // The system's own script names the static part of the library, too.
    let script = files::read(&found("libc.so")?)?;
    write(&folder.join("libc.so"), redirected(&script, &folder)?)?;
    Ok(folder)
}

/// The script `libc.so` with the stub in the place of the library.
fn redirected(script: &str, folder: &Path) -> Result<String, String> {
    let library = script.split_whitespace().find(|word| word.ends_with("/libc.so.6"));
    let library = library.ok_or("libc.so names no libc.so.6")?;
    let folder = folder.display();
    Ok(script.replace(library, &format!("{folder}/libc.so.6 {folder}/libolder.a")))
}

/// One stub, from the source of an assembler.
fn assemble(
    compiler: &str,
    folder: &Path,
    library: &str,
    symbols: &BTreeMap<String, Symbol>,
) -> Result<(), String> {
    let (source, versions) = (folder.join("stub.s"), folder.join("stub.map"));
    write(&source, assembly(symbols))?;
    let all: BTreeSet<Version> = symbols.values().map(|symbol| symbol.version).collect();
    let node = |version| format!("{version} {{ local: stub_*; }};\n");
    write(&versions, all.into_iter().map(node).collect::<String>())?;
    let path = folder.join(library);
    run(Command::new(compiler)
        .args(["-shared", "-nostdlib", "-Wl,--build-id=none"])
        .arg(format!("-Wl,-soname,{library}"))
        .arg(format!("-Wl,--version-script={}", versions.display()))
        .arg("-o")
        .args([&path, &source]))?;
    let plain = folder.join(library.split_once(".so.").map_or(library, |(name, _)| name));
    if library != LIBC {
        let link = plain.with_extension("so");
        std::os::unix::fs::symlink(library, &link)
            .map_err(|e| format!("{}: {e}", link.display()))?;
    }
    Ok(())
}

fn assembly(symbols: &BTreeMap<String, Symbol>) -> String {
    let mut text = String::new();
    for (at, Symbol { name, version, kind, size, .. }) in symbols.values().enumerate() {
        let (section, kind) = match kind.as_str() {
            "OBJECT" => (".data", "object"),
            "TLS" => (".section .tdata,\"awT\"", "tls_object"),
            _ => (".text", "function"),
        };
        text += &format!(
            "{section}\n.globl stub_{at}\n.type stub_{at},%{kind}\n.size stub_{at},{size}\nstub_{at}: .quad 0\n\
             .symver stub_{at}, {name}@@{version}\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
   Num:    Value          Size Type    Bind   Vis      Ndx Name
   290: 00000000001db320     8 OBJECT  WEAK   DEFAULT   34 environ@@GLIBC_2.2.5
  1432: 0000000000089380  3821 FUNC    GLOBAL DEFAULT   16 pthread_create@GLIBC_2.2.5
  1434: 0000000000089380  3821 FUNC    GLOBAL DEFAULT   16 pthread_create@@GLIBC_2.34
  2074: 00000000000855b0   185 FUNC    GLOBAL DEFAULT   16 dlsym@@GLIBC_2.34
  2075: 00000000000855b0   185 FUNC    GLOBAL DEFAULT   16 dlsym@GLIBC_2.2.5
  2725: 00000000000a2d70    40 FUNC    GLOBAL DEFAULT   16 memcpy@GLIBC_2.2.5
  2727: 000000000009be70   265 IFUNC   GLOBAL DEFAULT   16 memcpy@@GLIBC_2.14
  2819: 00000000000f77e0    18 FUNC    WEAK   DEFAULT   16 stat64@@GLIBC_2.33
  2820: 00000000000f77e0    18 FUNC    GLOBAL DEFAULT   16 __secret@@GLIBC_PRIVATE";

    #[test]
    fn a_stub_has_the_newest_version_that_is_old_enough() {
        let stubs = older("libc.so.6", &symbols(TEXT), FLOOR);
        let has = |library, name| {
            stubs.get(library).and_then(|stub| stub.get(name)).map(|symbol| symbol.version)
        };
        assert_eq!(has("libc.so.6", "memcpy"), Some(Version(2, 14, 0)));
        assert_eq!(has("libc.so.6", "environ"), Some(Version(2, 2, 5)));
        assert_eq!(has(THREADS, "pthread_create"), Some(Version(2, 2, 5)));
        assert_eq!(has("libdl.so.2", "dlsym"), Some(Version(2, 2, 5)));
        assert_eq!(has("libc.so.6", "pthread_create"), None, "an old libc.so.6 has it not");
        assert_eq!(has("libc.so.6", "stat64"), None);
        let text = assembly(&stubs["libdl.so.2"]);
        assert!(text.contains(".symver stub_0, dlsym@@GLIBC_2.2.5\n"), "{text}");
    }

    #[test]
    fn what_an_older_system_has_not_is_found() {
        let needed = "
     8: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND dlsym@GLIBC_2.34 (3)
     9: 0000000000000000     0 FUNC    WEAK   DEFAULT  UND gettid@GLIBC_2.30 (4)
    10: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND memcpy@GLIBC_2.14 (2)";
        assert_eq!(above(&symbols(needed), FLOOR), ["dlsym@GLIBC_2.34"]);
        assert_eq!(above(&symbols(needed), Version(2, 34, 0)), [""; 0]);
    }

    #[test]
    fn the_script_of_the_linker_names_the_stub() {
        let script = "GROUP ( /lib/x/libc.so.6 /usr/lib/x/libc_nonshared.a )";
        let text = redirected(script, Path::new("/s")).unwrap();
        assert_eq!(text, "GROUP ( /s/libc.so.6 /s/libolder.a /usr/lib/x/libc_nonshared.a )");
        assert!(redirected("GROUP ( )", Path::new("/s")).is_err());
    }
}
