//! Builds a library for each variant, which a process can be started on: none of its calls is
//! dispatched.

use super::plan::SYSTEM;
use crate::libraries::{Library, build_folder, root};
use toft_bench::peers::{self, Peer};
use toft_small_bins::variant::NAMES;

/// Every variant, and glibc in three ways.
pub fn peers(quick: bool) -> Result<Vec<Peer>, String> {
    let mut all = Vec::new();
    for name in NAMES {
        all.push(peer(name, quick)?);
    }
    let system: Vec<String> = SYSTEM.iter().map(ToString::to_string).collect();
    all.extend(peers::choose(&system)?);
    Ok(all)
}

/// Builds the library of a variant.
fn peer(variant: &str, quick: bool) -> Result<Peer, String> {
    let library = Library {
        name: variant,
        words: "rustc --package toft-small-bins --lib --crate-type cdylib --features preload",
        // What the library registers for `fork` must stay.
        link: &["-C", "link-arg=-Wl,-z,nodelete"],
        file: "libtoft_small_bins.so",
        // All its own code is one crate.
        lto: "off",
        variables: &[("TOFT_SMALL_BINS_VARIANT", variant)],
    };
    let built = library.build(root(), &build_folder("small-bins").join(variant), quick)?;
    Ok(Peer { name: variant.to_owned(), library: Some(built), version: String::new() })
}

#[cfg(test)]
mod tests {
    use super::super::plan::INVERTED;
    use super::*;
    use std::time::Duration;
    use toft_bench::child::{self, Limits};

    const PYTHON: &str = "import json,subprocess,threading
def work():
    for n in range(20000): bytes(n % 3000)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for _ in range(5): assert subprocess.run(['true']).returncode == 0
for thread in threads: thread.join()
text = json.dumps([str(n) * 9 for n in range(100000)])
print(len(text), len(bytes(50_000_000)), open('/proc/self/maps').read().count('libtoft_small_bins.so'))
";

    /// What a program prints on a peer; it must end well.
    fn output(peer: &Peer, program: &str, words: &[&str]) -> String {
        let mut command = child::on_peer(peer, program);
        command.args(words).current_dir(root());
        let limits = Limits { timeout: Duration::from_secs(300), pin: None };
        let ended = child::run(command, limits);
        ended.unwrap_or_else(|why| panic!("{program} on {}: {why}", peer.name)).output
    }

    /// Threads, forks, large blocks and long lists in python3; git, which
    /// allocates much. Their output is that on glibc.
    #[test]
    fn real_programs_run_on_every_variant() {
        let script = ["-c", PYTHON];
        let git = ["hash-object", "Cargo.lock", "Cargo.toml", "CHANGELOG.md", "README.md"];
        let diff = ["diff", "--no-index", "--stat", "crates/toft-core/src", "lab/small-bins/src"];
        let glibc = Peer::without_library("glibc", "");
        let python = output(&glibc, "python3", &script);
        let hashes = output(&glibc, "git", &git);
        assert!(python.trim_end().ends_with(" 0") && hashes.lines().count() == 4, "{python}");
        for name in NAMES {
            let peer = peer(name, true).unwrap();
            let on_it = output(&peer, "python3", &script);
            let (before, mapped) = on_it.trim_end().rsplit_once(' ').unwrap();
            assert_eq!(python.trim_end().rsplit_once(' ').unwrap().0, before, "{name}");
            assert_ne!(mapped, "0", "{name} is not loaded");
            assert_eq!(output(&peer, "git", &git), hashes, "{name}");
            let mut command = child::on_peer(&peer, "git");
            command.args(diff).current_dir(root());
            // Two folders differ, and git says so with status 1.
            let said = command.output().unwrap();
            assert_eq!(said.status.code(), Some(1), "{name}: {said:?}");
            assert!(said.stdout.ends_with(b"(-)\n"), "{name}: {said:?}");
        }
    }

    /// A library that writes over a link of a free block is stopped, and named, in a real program.
    #[test]
    fn a_corrupted_link_stops_a_real_program() {
        const SCRIPT: &str = "import ctypes
c = ctypes.CDLL(None)
c.malloc.restype = ctypes.c_void_p
c.malloc.argtypes = [ctypes.c_size_t]
c.free.argtypes = [ctypes.c_void_p]
blocks = [c.malloc(3000) for _ in range(40)]
for block in blocks[::2]: c.free(block)
WRITE
for _ in range(40): c.malloc(3000)
for size in range(20000, 60000, 1000): c.malloc(size)
print('went on')
";
        let peer = peer(INVERTED, true).unwrap();
        let run = |write: &str| {
            let mut command = child::on_peer(&peer, "python3");
            command.args(["-c", &SCRIPT.replace("WRITE", write)]).output().unwrap()
        };
        let over = run("for block in blocks[::2]: ctypes.memset(block, 0x41, 16)");
        let said = String::from_utf8_lossy(&over.stderr);
        assert!(said.contains("toft-small-bins: inverted: corrupted link: "), "{said}");
        assert!(!over.status.success() && over.stdout.is_empty(), "{over:?}");
        // The twin: the same bytes in blocks that are in use.
        let twin = run("for block in blocks[1::2]: ctypes.memset(block, 0x41, 3000)");
        assert_eq!(twin.stdout, b"went on\n", "{twin:?}");
    }
}
