//! A user's machine: an empty home folder, and a directory source in place of crates.io.

use crate::files;
use crate::step::{succeed as run, text};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A program whose allocator is the published crate. It waits until its input ends.
const PROGRAM: &str = r#"
#[global_allocator]
static ALLOCATOR: toft::Toft = toft::Toft;

fn main() {
    let names: Vec<String> = (0..20_000).map(|i| format!("name {i}")).collect();
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    assert_eq!(names[7], "name 7");
}
"#;

/// Installs the command, runs programs, inspects their heaps, uninstalls it, and checks that
/// nothing is left.
pub fn install_and_use(source: &Path, home: &Path) -> Result<(), String> {
    let user = User::new(source, home)?;
    println!("\n==> cargo install toft-cli");
    run(user.cargo().args(["install", "toft-cli"]))?;
    let toft = user.home.join(".cargo/bin/toft");

    println!("\n==> an ordinary program on the command's library");
    let mut shell = user.command(&toft);
    shell.args(["run", "--strict", "--", "sh", "-c", "echo ready; read line"]);
    let heap = user.heap(&toft, &mut shell)?;
    expect(heap.contains("call site"), "the heap of the shell has no call site", &heap)?;

    println!("\n==> a program with the published crate as its allocator");
    let program = user.program()?;
    let heap = user.heap(&toft, &mut user.command(&program))?;
    expect(heap.contains("20"), "the heap of the program has no 20 000 strings", &heap)?;

    println!("\n==> cargo uninstall toft-cli");
    run(user.cargo().args(["uninstall", "toft-cli"]))?;
    // As the README tells the user.
    let _ = fs::remove_dir_all(user.home.join(".cache/toft"));
    fs::remove_dir_all(user.home.join("program")).map_err(|e| e.to_string())?;
    let left = left(&user.home);
    expect(left.is_empty(), "the home folder still has", &format!("{left:?}"))
}

struct User {
    home: PathBuf,
}

impl User {
    fn new(source: &Path, home: &Path) -> Result<User, String> {
        let config = format!(
            "[source.crates-io]\nreplace-with = \"folder\"\n\
             [source.folder]\ndirectory = \"{}\"\n\
             [net]\noffline = true\n",
            source.display()
        );
        files::write(&home.join(".cargo/config.toml"), config)?;
        Ok(User { home: home.to_owned() })
    }

    /// A command with this home folder and nothing of our environment but the compiler.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.home).env_clear().env("HOME", &self.home);
        for name in ["PATH", "RUSTUP_TOOLCHAIN", "LANG"] {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        let rustup = std::env::var_os("RUSTUP_HOME")
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".rustup")));
        command.envs(rustup.map(|folder| ("RUSTUP_HOME", folder)));
        command
    }

    fn cargo(&self) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut cargo = self.command(Path::new(&cargo));
        cargo.env("CARGO_HOME", self.home.join(".cargo"));
        cargo.env("CARGO_TERM_PROGRESS_WHEN", "never");
        cargo
    }

    /// Builds [`PROGRAM`], as a newcomer would with the README, and returns where it is.
    fn program(&self) -> Result<PathBuf, String> {
        run(self.cargo().args(["new", "--quiet", "--vcs", "none", "program"]))?;
        let folder = self.home.join("program");
        files::write(&folder.join("src/main.rs"), PROGRAM)?;
        run(self.cargo().args(["add", "--quiet", "toft"]).current_dir(&folder))?;
        run(self.cargo().args(["build", "--quiet"]).current_dir(&folder))?;
        let lock = files::read(&folder.join("Cargo.lock"))?;
        let names: Vec<_> = lock.lines().filter(|line| line.starts_with("name = ")).collect();
        let lean = names == ["name = \"libc\"", "name = \"program\"", "name = \"toft\""];
        expect(lean, "toft brings more than libc into a lock file", &lock)?;
        Ok(folder.join("target/debug/program"))
    }

    /// Starts a program that says `ready` and waits, and returns what `toft heap` says of it.
    fn heap(&self, toft: &Path, program: &mut Command) -> Result<String, String> {
        program.stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = program.spawn().map_err(|e| format!("{program:?}: {e}"))?;
        let mut running = Running(started);
        let mut line = String::new();
        let out = running.0.stdout.take().ok_or("the program has no output")?;
        BufReader::new(out).read_line(&mut line).map_err(|e| e.to_string())?;
        expect(line == "ready\n", "the program is not ready; it says", &line)?;
        let heap = text(self.command(toft).arg("heap").arg(running.0.id().to_string()))?;
        println!("{heap}");
        drop(running.0.stdin.take());
        let status = running.0.wait().map_err(|e| e.to_string())?;
        // A shell's `read` at the end of its input is 1.
        let well = status.code().is_some_and(|code| code < 2);
        expect(well, "the program did not end well", &status.to_string())?;
        Ok(heap)
    }
}

/// A process that does not outlive us.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn expect(so: bool, wrong: &str, found: &str) -> Result<(), String> {
    if so { Ok(()) } else { Err(format!("{wrong}: {found}")) }
}

/// Every file of a home folder that names the allocator, in its path or, for cargo's lists, in its
/// text.
fn left(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let lists = name.starts_with(".crates");
        let listed =
            || lists && fs::read_to_string(&path).is_ok_and(|text| text.contains("toft-cli"));
        if name.contains("toft") || listed() {
            found.push(path);
        } else if path.is_dir() && !path.is_symlink() {
            found.extend(left(&path));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_found() {
        let home = std::env::temp_dir().join(format!("xtask-crates-left-{}", std::process::id()));
        let put = |file: &str, text: &str| {
            files::write(&home.join(file), text).unwrap();
        };
        put(".cargo/config.toml", "[net]");
        put(".cargo/.crates.toml", "[v1]\n");
        assert_eq!(left(&home), Vec::<PathBuf>::new());
        put(".cargo/bin/toft", "");
        put(".cargo/.crates2.json", "{\"toft-cli 0.1.0\":{}}");
        let mut found = left(&home);
        found.sort();
        assert_eq!(found, [".cargo/.crates2.json", ".cargo/bin/toft"].map(|f| home.join(f)));
        fs::remove_dir_all(&home).unwrap();
    }
}
