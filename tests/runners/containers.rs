//! Programs under the filters of system calls (seccomp) that containers have, in a container where
//! the kernel allows one.
//!
//! Lists in `seccomp/` say what the filters are. bubblewrap makes the container: its own users,
//! processes and mounts, without privileges or a daemon. Where the kernel forbids that, the filter
//! alone is installed, and the tests say so in their names.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use toft_bench::child::Killed;
use toft_tests::compile::compiler;
use toft_tests::library::{library, scratch_dir};
use toft_tests::process::command;
use toft_tests::programs::run::toft;
use toft_tests::trials::{main as run, needing, trial};

const LISTS: [&str; 3] = ["docker", "containerd", "podman"];
/// What `frees.c` may have in the end, in MiB: on a host it has 8, and 220 with glibc.
const FREED: u32 = 24;
/// What `toft purge` is to return of it at least, in MiB. The program keeps all of that until then.
const PURGED: u64 = 100;
/// Seconds after which what has not gone back stays. Not a measure: a busy machine takes its time.
const PATIENCE: u64 = 120;

/// A system call for each row of what Toft wants, and whether the thread that gives memory back can
/// do without.
const WANTED: [(&str, bool); 13] = [
    ("membarrier", true),
    ("sched_setscheduler", true),
    ("capset", true),
    ("process_madvise", true),
    ("pidfd_open", true),
    ("mincore", true),
    ("sysinfo", true),
    ("process_vm_readv", true),
    ("userfaultfd", true),
    ("memfd_create", true),
    ("mlock2", true),
    ("pkey_alloc", true),
    // The thread itself. Threads of the C library come by clone3.
    ("clone", false),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("seccomp")
}

fn build(name: &str, libraries: &[&str]) -> Result<PathBuf, String> {
    let program = scratch_dir("containers").join(name);
    // Trials run at once: each makes its own, and the last one stays.
    let own = program.with_extension(format!("{:?}", std::thread::current().id()));
    let mut compile = compiler(false);
    compile.arg("-o").arg(&own).arg(folder().join(format!("{name}.c"))).args(libraries);
    let out = compile.output().map_err(|e| format!("{compile:?}: {e}"))?;
    if !out.status.success() {
        return Err(format!("{compile:?}\n{}", String::from_utf8_lossy(&out.stderr)));
    }
    std::fs::rename(&own, &program).map_err(|e| e.to_string())?;
    Ok(program)
}

fn under() -> Result<PathBuf, String> {
    build("under", &["-lseccomp"])
}

fn list(name: &str) -> PathBuf {
    folder().join(format!("{name}.calls"))
}

/// Whether bubblewrap can make a container here.
fn containers() -> bool {
    let mut bwrap = Command::new("bwrap");
    bwrap.args([
        "--ro-bind",
        "/",
        "/",
        "--unshare-all",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "true",
    ]);
    bwrap.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A command that runs a program in a container with this filter; or under the filter alone.
fn contained(filter: &str, program: &Path) -> Result<Command, String> {
    if containers() { in_container(filter, program, "") } else { filtered(filter, program) }
}

/// A command that runs a program under the filter alone.
fn filtered(filter: &str, program: &Path) -> Result<Command, String> {
    let mut alone = command(under()?);
    alone.arg(list(filter)).arg("--").arg(program);
    Ok(alone)
}

/// A command that runs a program in a container with this filter, and `more` words for bubblewrap.
fn in_container(filter: &str, program: &Path, more: &str) -> Result<Command, String> {
    let under = under()?;
    let compiled = scratch_dir("containers").join(format!("{filter}.{}.bpf", std::process::id()));
    let file = std::fs::File::create(&compiled).map_err(|e| e.to_string())?;
    let made = Command::new(&under).arg(list(filter)).stdout(file).status();
    if !made.map_err(|e| e.to_string())?.success() {
        return Err(format!("{filter}: libseccomp makes no filter of it"));
    }
    // What begins with a dot stays outside: a mark of the container that this test itself may run
    // in.
    let mut shell = command("sh");
    shell.arg("-c").arg(format!(
        "for each in /*; do binds=\"$binds --ro-bind $each $each\"; done
         exec bwrap $binds --bind \"$WRITABLE\" \"$WRITABLE\" --proc /proc --dev /dev --unshare-user --unshare-pid --unshare-ipc \
         --unshare-uts {more} --seccomp 9 -- \"$0\" \"$@\" 9<\"$FILTER\" 8</dev/null",
    ));
    shell.arg(program).env("FILTER", compiled).env("WRITABLE", std::env::temp_dir());
    Ok(shell)
}

/// Has the library preloaded, if one is under test.
fn preload(command: &mut Command) {
    command.envs(library().path().map(|library| ("LD_PRELOAD", library)));
}

/// Runs `frees`, which is to give back what it can, or nothing, and reads what it says: KiB when
/// full and in the end, and what it noticed.
fn frees(mut command: Command, gives_back: bool, more: Option<&str>) -> Result<(), String> {
    let seconds = if gives_back { PATIENCE } else { 2 };
    command.args([FREED.to_string(), seconds.to_string()]).args(more);
    let out = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let said: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [full, left, wrong] = said[..] else {
        let errors = String::from_utf8_lossy(&out.stderr);
        return Err(format!("{command:?}: {:?} {text}{errors}", out.status));
    };
    if wrong != 0 || gives_back != (left <= u64::from(FREED) << 10) {
        return Err(format!("{full} KiB, then {left} KiB; noticed {wrong:#b}"));
    }
    Ok(())
}

fn gives_back(filter: &str) -> Result<(), String> {
    let mut command = contained(filter, &build("frees", &["-pthread"])?)?;
    preload(&mut command);
    frees(command, true, None)
}

/// What tells a program without threads that its filter allows processes.
#[derive(Clone, Copy)]
enum Evidence {
    None,
    /// Its parent has the filter, too: a shell in a container.
    Parent,
    /// It is the first process of a container with a runtime's mark, or of one without.
    Mark,
    NoMark,
}

/// A program without threads gives back what it can where there is evidence, and else nothing.
fn looks_for(evidence: Evidence) -> Result<(), String> {
    let frees_program = build("frees", &["-pthread"])?;
    let mut command = match evidence {
        Evidence::None => filtered("docker", &frees_program)?,
        Evidence::Parent => {
            let mut shell = filtered("docker", Path::new("sh"))?;
            // The shell stays, because it has another command.
            shell.args(["-c", "\"$0\" \"$@\"; true"]).arg(&frees_program);
            shell
        }
        Evidence::Mark => {
            let mark = "--as-pid-1 --tmpfs /run --file 8 /run/.containerenv";
            in_container("docker", &frees_program, mark)?
        }
        Evidence::NoMark => in_container("docker", &frees_program, "--as-pid-1 --tmpfs /run")?,
    };
    preload(&mut command);
    frees(command, matches!(evidence, Evidence::Parent | Evidence::Mark), Some("alone"))
}

/// A program under a filter that kills, traps or lies for one call lives, is none the wiser, and
/// gives back what it can.
fn lives(how: &str, call: &str, gives_back: bool) -> Result<(), String> {
    let mut command = command(under()?);
    command.arg(format!("{how}:{call}")).arg("--").arg("env");
    command.args(library().path().map(|library| format!("LD_PRELOAD={}", library.display())));
    command.arg(build("frees", &["-pthread"])?);
    frees(command, gives_back, None)
}

/// The command `toft` returns the free memory of a program under a filter, which the program itself
/// keeps, and shows the rest.
fn is_seen(filter: &str) -> Result<(), String> {
    let mut command = filtered(filter, &build("frees", &["-pthread"])?)?;
    // It waits for less than it can have, so that it is there until the test ends.
    command.args(["0", &(2 * PATIENCE).to_string()]).env("TOFT_DECAY", "3600000");
    preload(&mut command);
    let child = command.stdout(Stdio::null()).spawn().map_err(|e| format!("{command:?}: {e}"))?;
    let program = Killed(child);
    let pid = program.pid();
    let toft = toft()?;
    let said = |arguments: &[&str]| {
        let out = Command::new(toft).args(arguments).arg(&pid).output();
        let out = out.map_err(|e| format!("toft: {e}"))?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let errors = String::from_utf8_lossy(&out.stderr);
        let failed = || format!("toft {arguments:?}: {}: {text}{errors}", out.status);
        if out.status.success() { Ok(text) } else { Err(failed()) }
    };
    let (mut returned, mut last) = (0, Err("toft did not run".to_owned()));
    let purged = wait(|| {
        last = said(&["purge", "--json"]);
        // In the beginning the program is not there yet.
        let Ok(text) = &last else { return false };
        returned += number(text, "returned_bytes").unwrap_or(0);
        let rss = number(text, "rss_after").unwrap_or(u64::MAX);
        if std::env::var_os("TOFT_TEST_SHOW").is_some() {
            eprintln!("{text}");
        }
        returned > PURGED << 20 && rss <= u64::from(FREED) << 20
    });
    purged.ok_or_else(|| format!("{returned} bytes were returned; at last: {last:?}"))?;
    let heap = said(&["heap"])?;
    if !heap.contains("live") {
        return Err(format!("no live blocks: {heap}"));
    }
    let rss = said(&["rss"])?;
    let shown = ["resident", "inherited filter; off: ", "batched release ("];
    if !shown.iter().all(|part| rss.contains(part)) {
        return Err(format!("not the resident memory, or not the filter: {rss}"));
    }
    Ok(())
}

/// The value of a name in what `toft` prints as JSON.
fn number(text: &str, name: &str) -> Option<u64> {
    let (_, rest) = text.split_once(&format!("\"{name}\":"))?;
    let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// A server that ends with the test.
struct Server {
    _child: Killed,
    folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.ask("SHUTDOWN NOSAVE");
    }
}

impl Server {
    fn start(filter: Option<&str>) -> Result<Server, String> {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let redis = toft_tests::need::find("redis-server").ok_or("no redis-server")?;
        let mut command = match filter {
            Some(filter) => contained(filter, &redis)?,
            None => command(redis),
        };
        let socket = folder.path().join("socket");
        command
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(&socket);
        preload(&mut command);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|e| format!("{command:?}: {e}"))?;
        let server = Server { _child: Killed(child), folder };
        wait(|| server.ask("PING").is_ok_and(|answer| answer.contains("PONG")))
            .ok_or("redis does not answer")?;
        Ok(server)
    }

    fn ask(&self, what: &str) -> std::io::Result<String> {
        let mut stream =
            std::os::unix::net::UnixStream::connect(self.folder.path().join("socket"))?;
        stream.set_read_timeout(Some(Duration::from_secs(PATIENCE)))?;
        stream.write_all(format!("{what}\r\n").as_bytes())?;
        let mut buffer = [0; 65536];
        let got = stream.read(&mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer[..got]).into_owned())
    }

    /// KiB that redis itself sees resident.
    fn resident(&self) -> Option<u64> {
        let text = self.ask("INFO memory").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("used_memory_rss:"))?;
        line.trim().parse::<u64>().ok().map(|bytes| bytes >> 10)
    }

    /// Fills it, empties it, and waits until it has as little as `wanted` says, in KiB, or no less
    /// for a while.
    fn empties(&self, wanted: impl Fn(u64) -> bool) -> Result<(u64, u64), String> {
        let fill = "local v = string.rep('v', 200) for i = 1, 400000 do \
                    redis.call('set', 'key:' .. i, v .. string.rep('w', i % 300)) end return redis.call('dbsize')";
        let answer = self.ask(&format!("EVAL \"{fill}\" 0")).map_err(|e| e.to_string())?;
        if !answer.starts_with(":400000") {
            return Err(format!("filled: {answer}"));
        }
        let full = self.resident().ok_or("no INFO")?;
        self.ask("FLUSHALL").map_err(|e| e.to_string())?;
        let begun = Instant::now();
        let mut least = u64::MAX;
        let _ = wait(|| {
            let now = self.resident().unwrap_or(u64::MAX);
            if now < least {
                least = now;
                if std::env::var_os("TOFT_TEST_SHOW").is_some() {
                    eprintln!("{:.1} s: {now} KiB of {full}", begun.elapsed().as_secs_f64());
                }
            }
            wanted(now)
        });
        Ok((full, least))
    }
}

/// Waits until something is so.
fn wait(mut so: impl FnMut() -> bool) -> Option<()> {
    let end = Instant::now() + Duration::from_secs(PATIENCE);
    while !so() {
        if Instant::now() > end {
            return None;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Some(())
}

/// Redis that was emptied has no more than a tenth more in a container than on the host.
fn redis(filter: &'static str) -> Result<(), String> {
    // On the host: what is left once nothing has gone for some seconds.
    let since = std::cell::Cell::new((u64::MAX, Instant::now()));
    let settled = |now: u64| {
        let (least, at) = since.get();
        if now < least {
            since.set((now, Instant::now()));
        }
        now >= least && at.elapsed() > Duration::from_secs(4)
    };
    let (full, host) = Server::start(None)?.empties(settled)?;
    if host > full / 2 {
        return Err(format!("on the host: {host} KiB of {full}"));
    }
    let bar = host + host / 10;
    let (full, here) = Server::start(Some(filter))?.empties(|now| now <= bar)?;
    if here > bar {
        return Err(format!("{here} KiB of {full}, on the host {host}"));
    }
    Ok(())
}

fn main() {
    let needs = |more: &[(&str, &str)]| {
        // The header of a library is no tool: the compiler says so.
        let all = [("bwrap", "bubblewrap")];
        all.iter()
            .chain(more)
            .map(|(tool, package)| (tool.to_string(), package.to_string()))
            .collect::<Vec<_>>()
    };
    if library().path().is_none() {
        run(vec![trial("containers (not on libc: it keeps what was freed)", || Ok(()))]);
    }
    let place = if containers() { "" } else { " (the filter alone: no containers here)" };
    let mut trials: Vec<Trial> = Vec::new();
    for list in LISTS {
        trials.push(needing(&format!("gives_back_{list}{place}"), &needs(&[]), move || {
            gives_back(list)
        }));
        let redis_needs = needs(&[("redis-server", "redis-server")]);
        trials.push(needing(&format!("redis_{list}{place}"), &redis_needs, move || redis(list)));
    }
    trials.push(trial("is_seen_docker", || is_seen("docker")));
    trials.push(trial("no_evidence", || looks_for(Evidence::None)));
    trials.push(trial("evidence_of_the_parent", || looks_for(Evidence::Parent)));
    if containers() {
        trials.push(trial("evidence_of_a_mark", || looks_for(Evidence::Mark)));
        trials.push(trial("no_evidence_without_a_mark", || looks_for(Evidence::NoMark)));
    }
    trials.push(trial("allows_everything", || lives("allow", "", true)));
    for (call, gives_back) in WANTED {
        for how in ["kill", "trap"] {
            trials.push(trial(format!("{how}_{call}"), move || lives(how, call, gives_back)));
        }
    }
    for (call, gives_back) in
        [("membarrier", true), ("mincore", true), ("sysinfo", true), ("clone", false)]
    {
        trials.push(trial(format!("lie_{call}"), move || lives("lie", call, gives_back)));
    }
    run(trials);
}
