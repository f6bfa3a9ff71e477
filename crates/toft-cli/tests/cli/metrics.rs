//! `toft metrics`: what Prometheus reads, once, in a file, at a socket; and the end of a process
//! that is watched.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::*;
use serde_json::Value;

/// Keeps blocks of three sites, and more of one at each line that it reads; prints the number of
/// its bytes. At a line that begins with m it writes its own figures into the file that its
/// argument names.
const TARGET: &str = r#"
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
extern int toft_metrics(int) __attribute__((weak));
static size_t bytes;
static void *had(void *block) { bytes += malloc_usable_size(block); return block; }
static void *volatile sink;
__attribute__((noinline)) void small(void) { for (int i = 0; i < 3000; i++) sink = had(malloc(50)); }
__attribute__((noinline)) void medium(void) { for (int i = 0; i < 500; i++) sink = had(malloc(5000)); }
__attribute__((noinline)) void large(void) { for (int i = 0; i < 4; i++) sink = had(malloc(1 << 20)); }
static void figures(const char *name) {
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || !toft_metrics || toft_metrics(fd) != 0 || toft_metrics(-1) != -1) _exit(9);
    close(fd);
}
int main(int argc, char **argv) {
    static char out[100], in[10];
    setvbuf(stdout, out, _IOLBF, sizeof out);
    setvbuf(stdin, in, _IOLBF, sizeof in);
    small(); medium(); large();
    char line[10];
    do printf("%zu\n", bytes);
    while (fgets(line, sizeof line, stdin) && (*line == 'm' ? figures(argv[1]) : medium(), 1));
}
"#;

struct Target {
    child: Running,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    pid: String,
    bytes: u64,
}

impl Target {
    fn start(directory: &Path) -> Target {
        Target::of(&compile(directory, "target", TARGET, &["-fno-builtin"]))
    }

    fn of(program: &Path) -> Target {
        let mut command = Command::new(program);
        command.arg(program.with_extension("prom"));
        let command = command.env("LD_PRELOAD", library());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let bytes = lines.next().unwrap().unwrap().parse().unwrap();
        Target { pid: child.id().to_string(), child: Running(child), lines, bytes }
    }

    fn grow(&mut self) {
        self.tell(b"g\n");
    }

    fn tell(&mut self, line: &[u8]) {
        self.child.stdin.as_mut().unwrap().write_all(line).unwrap();
        self.bytes = self.lines.next().unwrap().unwrap().parse().unwrap();
    }

    fn end(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

type Labels = Vec<(String, String)>;

/// What a reader of the text format 0.0.4 makes of it; the reason where it is none.
fn parse(text: &str) -> Result<HashMap<(String, Labels), f64>, String> {
    let (mut helped, mut typed, mut ended) = (HashSet::new(), HashSet::new(), HashSet::new());
    let (mut samples, mut now) = (HashMap::new(), String::new());
    if !text.ends_with('\n') {
        return Err("the last line has no end".into());
    }
    for line in text.lines() {
        let told = |what: &str| Err(format!("{what}: {line}"));
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (kind, name) = (words.next().unwrap(), words.next().unwrap_or("").to_owned());
            let rest = words.next().unwrap_or("");
            let first = match kind {
                "HELP" if !rest.is_empty() && !rest.contains('\\') => helped.insert(name.clone()),
                "TYPE" if ["gauge", "counter"].contains(&rest) => typed.insert(name.clone()),
                _ => return told("no such comment"),
            };
            if !first || ended.contains(&name) {
                return told("a family is there once, and in one piece");
            }
            if name != now {
                ended.insert(std::mem::replace(&mut now, name));
            }
            continue;
        }
        let name: String =
            line.chars().take_while(|&c| c.is_ascii_alphanumeric() || c == '_').collect();
        if name != now || !typed.contains(&name) || !helped.contains(&name) {
            return told("a sample without its family's head");
        }
        let mut rest = line[name.len()..].chars().peekable();
        let mut labels = Labels::new();
        if rest.next_if_eq(&'{').is_some() {
            while rest.next_if_eq(&'}').is_none() {
                let mut label = String::new();
                while let Some(c) = rest.next_if(|&c| c != '=') {
                    label.push(c);
                }
                if label.is_empty() || rest.next() != Some('=') || rest.next() != Some('"') {
                    return told("a label is NAME=\"VALUE\"");
                }
                let mut value = String::new();
                loop {
                    match (rest.next(), rest.peek()) {
                        (Some('"'), _) => break,
                        (Some('\\'), Some('n')) => value.push('\n'),
                        (Some('\\'), Some(&c)) if c == '"' || c == '\\' => value.push(c),
                        (Some('\\') | None, _) => return told("what is escaped"),
                        (Some(c), _) => {
                            value.push(c);
                            continue;
                        }
                    }
                    rest.next();
                }
                labels.push((label, value));
                rest.next_if_eq(&',');
            }
        }
        let value: String = rest.collect();
        let value = value.strip_prefix(' ').and_then(|value| value.parse().ok());
        let Some(value) = value else { return told("no value") };
        if samples.insert((name, labels), value).is_some() {
            return told("a series is there twice");
        }
    }
    Ok(samples)
}

/// The sum over a family.
fn sum(samples: &HashMap<(String, Labels), f64>, family: &str) -> u64 {
    let of = samples.iter().filter(|((name, _), _)| name == family);
    assert!(of.clone().count() > 0, "no {family}");
    of.map(|(_, value)| *value).sum::<f64>() as u64
}

fn metrics(words: &[&str]) -> HashMap<(String, Labels), f64> {
    let output = toft().arg("metrics").args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    parse(&stdout(&output)).unwrap_or_else(|why| panic!("{why}\n{}", stdout(&output)))
}

/// Tries for ten seconds.
fn soon<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(300);
    loop {
        if let Some(done) = what() {
            return done;
        }
        assert!(Instant::now() < end, "it does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_parser_refuses_what_is_no_metric() {
    let head = "# HELP a What.\n# TYPE a gauge\n";
    assert!(parse(&format!("{head}a{{b=\"c\\\"\\n\"}} 1\n")).is_ok());
    for bad in
        ["a 1", "b 1\n", "a{b=c} 1\n", "a{b=\"c} 1\n", "a x\n", "a{b=\"\\x\"} 1\n", "a 1\na 1\n"]
    {
        assert!(parse(&format!("{head}{bad}")).is_err(), "{bad}");
    }
    assert!(parse("a 1\n").is_err() && parse(&format!("{head}{head}a 1\n")).is_err());
}

#[test]
fn figures_are_what_the_program_has() {
    let place = directory();
    let mut target = Target::start(place.path());
    let before = metrics(&[&target.pid]);
    target.grow();
    let samples = metrics(&[&target.pid, "--top", "2"]);
    // stdio's own blocks: two buffers at most, which are the program's here.
    let live = sum(&samples, "toft_live_bytes");
    assert!((target.bytes..target.bytes + 4096).contains(&live), "{live} {}", target.bytes);
    assert_eq!(sum(&samples, "toft_site_live_bytes"), live);
    assert_eq!(sum(&samples, "toft_live_blocks"), sum(&samples, "toft_site_live_blocks"));
    let of = |samples: &HashMap<(String, Labels), f64>, function: &str| {
        let of = samples.iter().filter(|((name, labels), _)| {
            name == "toft_site_live_blocks" && labels[0].1.starts_with(function)
        });
        of.map(|(_, value)| *value).sum::<f64>()
    };
    assert_eq!(
        (of(&before, "medium at target.c"), of(&samples, "medium at target.c")),
        (500.0, 1000.0)
    );
    assert_eq!(
        (of(&before, "small at target.c"), of(&samples, "small at target.c")),
        (3000.0, 0.0)
    );
    assert_eq!((of(&before, "other"), of(&samples, "large at target.c")), (0.0, 4.0));
    let sites = samples.keys().filter(|(name, _)| name == "toft_site_live_bytes").count();
    assert_eq!(sites, 3, "two and the others");
    let one =
        |name: &str, label: &str| samples[&(name.to_owned(), vec![("kind".into(), label.into())])];
    assert_eq!(one("toft_live_blocks", "large"), 4.0);
    assert!(sum(&samples, "toft_process_resident_bytes") > live / 10);
    assert_eq!(sum(&samples, "toft_heaps"), 1);
    // And as JSON.
    let json = stdout(&toft().args(["metrics", "--json", &target.pid]).output().unwrap());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["live_bytes"], live);
    assert_eq!(json["large_blocks"], 4);
}

/// A block that a probe was notified of is live in every reading: here the probe sees all.
#[test]
fn blocks_that_a_probe_was_told_of_are_live() {
    let place = directory();
    let mut target = Target::start(place.path());
    let path = library();
    let notes = Command::new("readelf").arg("-n").arg(&path).env("LC_ALL", "C").output().unwrap();
    let notes = stdout(&notes);
    let maps = fs::read_to_string(format!("/proc/{}/maps", target.pid)).unwrap();
    let base = maps.lines().find(|line| line.ends_with(text(&path))).unwrap();
    let base = u64::from_str_radix(base.split('-').next().unwrap(), 16).unwrap();
    let memory =
        fs::OpenOptions::new().write(true).open(format!("/proc/{}/mem", target.pid)).unwrap();
    let lines: Vec<&str> = notes.lines().map(str::trim).collect();
    let mut raised = 0;
    for name in ["Name: alloc", "Name: free"] {
        let at = lines.iter().position(|line| *line == name).unwrap();
        let semaphore = lines[at + 1].rsplit("Semaphore: 0x").next().unwrap();
        let semaphore = u64::from_str_radix(semaphore, 16).unwrap();
        memory.write_all_at(&1u16.to_le_bytes(), base + semaphore).unwrap();
        raised += 1;
    }
    assert_eq!(raised, 2);
    let before = target.bytes;
    // One byte in 512 KiB is chosen: some hundred blocks are.
    (0..20).for_each(|_| target.grow());
    assert!(target.bytes > before + 20 * 500 * 5000);
    let samples = metrics(&[&target.pid]);
    let live = sum(&samples, "toft_live_bytes");
    assert!((target.bytes..target.bytes + 4096).contains(&live), "{live} {}", target.bytes);
    // From inside the same: the program goes on to its end, and nothing is said of a bad call.
    drop(target.child.stdin.take());
    assert!(target.child.wait().unwrap().success());
}

#[test]
fn a_file_is_whole_and_goes_with_the_process() {
    let place = directory();
    let mut target = Target::start(place.path());
    let path = place.path().join("toft.prom");
    let once = toft().args(["metrics", &target.pid, "-o", text(&path)]).output().unwrap();
    assert_eq!(once.status.code(), Some(0), "{}", stderr(&once));
    let first = parse(&fs::read_to_string(&path).unwrap()).unwrap();
    let mut writer = toft();
    writer.args(["metrics", &target.pid, "--file", text(&path), "--every", "0.05"]);
    let mut writer = writer.stderr(Stdio::piped()).spawn().unwrap();
    let live = sum(&first, "toft_live_bytes");
    for _ in 0..3 {
        target.grow();
        // Whatever is read meanwhile is whole.
        soon(|| {
            let samples = parse(&fs::read_to_string(&path).unwrap()).unwrap();
            (sum(&samples, "toft_live_bytes") >= target.bytes).then_some(())
        });
    }
    assert!(target.bytes > live);
    target.end();
    assert!(soon(|| writer.try_wait().unwrap()).success());
    let mut told = String::new();
    writer.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(
        told.contains(&format!("process {} has ended", target.pid)) && !path.exists(),
        "{told}"
    );
    let left: Vec<_> =
        fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains(".new")), "{left:?}");
}

/// What is no file stays what it is, even for root; and a link leads to the new one.
#[test]
fn what_has_the_name_of_a_file_is_kept() {
    let place = directory();
    let mut target = Target::start(place.path());
    let fifo = place.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let reader = {
        let fifo = fifo.clone();
        std::thread::spawn(move || fs::read_to_string(fifo).unwrap())
    };
    let once = toft().args(["metrics", &target.pid, "-o", text(&fifo)]).output().unwrap();
    assert_eq!(once.status.code(), Some(0), "{}", stderr(&once));
    assert!(sum(&parse(&reader.join().unwrap()).unwrap(), "toft_live_bytes") >= target.bytes);
    assert!(!fs::metadata(&fifo).unwrap().is_file());
    let (link, led_to) = (place.path().join("link"), file(place.path(), "real", b"old", 0o644));
    std::os::unix::fs::symlink(&led_to, &link).unwrap();
    let once = toft().args(["metrics", &target.pid, "-o", text(&link)]).output().unwrap();
    assert_eq!(once.status.code(), Some(0), "{}", stderr(&once));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(parse(&fs::read_to_string(led_to).unwrap()).is_ok());
    target.end();
}

/// Asks by HTTP; the status and the body.
fn ask(mut peer: impl Read + Write, path: &str) -> (String, String) {
    write!(peer, "GET {path} HTTP/1.1\r\nHost: toft\r\n\r\n").unwrap();
    let mut answer = String::new();
    peer.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[test]
fn a_socket_answers_until_the_process_ends() {
    let place = directory();
    let mut target = Target::start(place.path());
    let path = place.path().join("toft.sock");
    // Another process has left one behind.
    drop(UnixListener::bind(&path).unwrap());
    let mut server = toft();
    server.args(["metrics", &target.pid, "--listen", text(&path)]);
    let mut server = server.stderr(Stdio::piped()).spawn().unwrap();
    let peer = soon(|| UnixStream::connect(&path).ok());
    // One that says nothing, and goes.
    drop(peer);
    let (status, body) = ask(UnixStream::connect(&path).unwrap(), "/metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let before = sum(&parse(&body).unwrap(), "toft_live_bytes");
    target.grow();
    let (_, body) = ask(UnixStream::connect(&path).unwrap(), "/metrics");
    assert!(sum(&parse(&body).unwrap(), "toft_live_bytes") > before);
    let mode = fs::symlink_metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}: for this user alone");
    let (status, _) = ask(UnixStream::connect(&path).unwrap(), "/else");
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    // A process listens there: a second one does not take the place.
    let second = toft().args(["metrics", &target.pid, "--listen", text(&path)]).output().unwrap();
    assert_eq!(second.status.code(), Some(125));
    assert!(said(&second).contains("cannot listen"));
    target.end();
    assert!(soon(|| server.try_wait().unwrap()).success());
    assert!(!path.exists());
}

/// Interrupted, the file and the socket go as they do with the process; what another program has
/// put there stays.
#[test]
fn what_stands_for_the_process_goes_with_an_interrupt() {
    let place = directory();
    let mut target = Target::start(place.path());
    let (prom, socket) = (place.path().join("toft.prom"), place.path().join("toft.sock"));
    let start = |words: &[&str]| {
        let mut command = toft();
        command.args(["metrics", &target.pid]).args(words).stderr(Stdio::piped()).spawn().unwrap()
    };
    let end = |mut child: Child, signal: &str| {
        let number = child.id().to_string();
        assert!(Command::new("kill").args([signal, &number]).status().unwrap().success());
        assert!(soon(|| child.try_wait().unwrap()).success());
        let mut told = String::new();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        assert!(told.contains("interrupted"), "{told}");
    };
    // The message before the loop says that the handlers are there.
    let told = |child: &mut Child| {
        let stderr = child.stderr.as_mut().unwrap();
        let mut byte = [0];
        soon(|| (stderr.read(&mut byte).unwrap() == 1 && byte[0] == b'\n').then_some(()));
    };
    for signal in ["-TERM", "-INT", "-HUP"] {
        let mut writer = start(&["-o", text(&prom), "--every", "60"]);
        told(&mut writer);
        assert!(prom.exists());
        end(writer, signal);
        assert!(!prom.exists(), "{signal}");
        let mut server = start(&["--listen", text(&socket)]);
        told(&mut server);
        assert!(socket.exists());
        end(server, signal);
        assert!(!socket.exists(), "{signal}");
    }
    let mut server = start(&["--listen", text(&socket)]);
    told(&mut server);
    fs::remove_file(&socket).unwrap();
    let _other = UnixListener::bind(&socket).unwrap();
    end(server, "-TERM");
    assert!(socket.exists(), "it is somebody else's");
    target.end();
}

/// `toft metrics WORDS`, which listens at an address.
struct Server {
    _child: Running,
    address: String,
}

impl Server {
    fn start(words: &[&str]) -> Server {
        let mut server = toft();
        let mut child = server.arg("metrics").args(words).stderr(Stdio::piped()).spawn().unwrap();
        let told = BufReader::new(child.stderr.take().unwrap()).lines().next().unwrap().unwrap();
        let address = told.split("http://").nth(1).unwrap().split('/').next().unwrap();
        Server { address: address.to_owned(), _child: Running(child) }
    }

    fn ask(&self, path: &str) -> (String, String) {
        ask(TcpStream::connect(&self.address).unwrap(), path)
    }
}

#[test]
fn an_address_of_this_machine_answers() {
    let place = directory();
    let target = Target::start(place.path());
    let server = Server::start(&[&target.pid, "--listen", "127.0.0.1:0"]);
    let (status, body) = server.ask("/metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(parse(&body).is_ok());
}

#[test]
fn every_address_answers_if_that_is_asked_for() {
    let place = directory();
    let target = Target::start(place.path());
    let server = Server::start(&[&target.pid, "--listen", "0.0.0.0:0", "--expose"]);
    assert!(server.address.starts_with("0.0.0.0:"), "{}", server.address);
    assert_eq!(server.ask("/metrics").0, "HTTP/1.1 200 OK");
}

#[test]
fn pprof_reads_the_heap_from_the_address() {
    let place = directory();
    let target = Target::start(place.path());
    let server = Server::start(&[&target.pid, "--listen", "127.0.0.1:0"]);
    let url = format!("http://{}/debug/pprof/heap", server.address);
    let mut pprof = Command::new("go");
    pprof.args(["tool", "pprof", "-top", "-sample_index=inuse_space", "-unit=B", &url]);
    let output = pprof.env("PPROF_TMPDIR", place.path()).env("HOME", place.path()).output();
    let output = output.expect("the tests need go");
    let table = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    let live = sum(&metrics(&[&target.pid]), "toft_live_bytes");
    assert!(table.contains(&format!("of {live}B total")), "{table}");
    assert!(table.contains(" medium") && table.contains(" large"), "{table}");
    // It keeps no stacks.
    let (status, why) = server.ask("/debug/pprof/allocs");
    assert!(status.contains("503") && why.contains("--sample 512k"), "{why}");
}

#[test]
fn processes_of_a_name_come_and_go() {
    let place = directory();
    let name = format!("fleet-{}", std::process::id());
    let program = compile(place.path(), &name, TARGET, &["-fno-builtin"]);
    let words = ["--name", &format!("{}*", &name[..name.len() - 1]), "--listen", "127.0.0.1:0"];
    let server = Server::start(&words);
    let pids = || -> HashSet<String> {
        let samples = parse(&server.ask("/metrics").1).unwrap();
        let live = samples.keys().filter(|(name, _)| name == "toft_live_bytes");
        let label = |labels: &Labels| {
            labels.iter().find(|(name, _)| name == "pid").map(|(_, pid)| pid.clone()).unwrap()
        };
        let pids: HashSet<String> = live.map(|(_, labels)| label(labels)).collect();
        assert_eq!(sum(&samples, "toft_processes"), pids.len() as u64);
        pids
    };
    assert!(pids().is_empty());
    let mut first = Target::of(&program);
    let second = Target::of(&program);
    assert_eq!(pids(), HashSet::from([first.pid.clone(), second.pid.clone()]));
    let (status, why) = server.ask("/debug/pprof/heap");
    assert!(status.contains("503") && why.contains(&second.pid), "{why}");
    first.end();
    assert_eq!(pids(), HashSet::from([second.pid.clone()]));
    let again = Target::of(&program);
    assert_eq!(pids(), HashSet::from([again.pid.clone(), second.pid.clone()]));
    // Of two that are named each is there, and once.
    let two = metrics(&[&again.pid, &second.pid]);
    assert_eq!(sum(&two, "toft_live_bytes"), {
        let of = |target: &Target| sum(&metrics(&[&target.pid]), "toft_live_bytes");
        of(&again) + of(&second)
    });
    let json = toft().args(["metrics", "--json", &again.pid, &second.pid]).output().unwrap();
    let json: Value = serde_json::from_str(&stdout(&json)).unwrap();
    assert_eq!(json["processes"].as_array().unwrap().len(), 2);
    let nothing = toft().args(["metrics", "--name", "no-such-name"]).output().unwrap();
    assert_eq!(nothing.status.code(), Some(125));
    assert!(said(&nothing).contains("is called no-such-name"));
}

#[test]
fn what_cannot_be_is_said_in_one_line() {
    let place = directory();
    let mut target = Target::start(place.path());
    let refused = |words: &[&str]| {
        let output = toft().arg("metrics").args(words).output().unwrap();
        (output.status.code(), stderr(&output))
    };
    let (status, told) = refused(&[&target.pid, "-o", "/no/such/folder/a.prom"]);
    assert!(status == Some(125) && told.contains("cannot write /no/such/folder/a.prom"), "{told}");
    let (status, told) = refused(&[&target.pid, "--listen", "0.0.0.0:9464"]);
    assert!(status == Some(2) && told.contains("others could read it"), "{told}");
    let (status, told) = refused(&[]);
    assert!(status == Some(2) && told.contains("PID"), "{told}");
    let taken = file(place.path(), "taken", b"mine", 0o644);
    let (status, _) = refused(&[&target.pid, "--listen", text(&taken)]);
    assert_eq!((status, fs::read(&taken).unwrap()), (Some(125), b"mine".to_vec()));
    target.end();
    let (status, told) = refused(&[&target.pid]);
    assert!(status == Some(125) && told.lines().count() == 1, "{told}");
    let stranger = stranger();
    let own = stranger.pid();
    let (status, told) = refused(&[&own]);
    assert!(status == Some(125) && told.contains("does not run on Toft"), "{told}");
}

/// The library writes from inside what the command writes from outside: of a process that is at
/// rest each byte is the same, but for what looking itself changes. It is stripped, so that neither
/// has more than places.
#[test]
fn from_inside_and_from_outside_it_is_the_same_page() {
    let place = directory();
    let program = compile(place.path(), "stripped", TARGET, &["-fno-builtin", "-s"]);
    let mut target = Target::of(&program);
    target.grow();
    target.tell(b"m\n");
    let inside = fs::read_to_string(program.with_extension("prom")).unwrap();
    let output = toft().args(["metrics", &target.pid]).output().unwrap();
    let outside = stdout(&output);
    let kept = |page: &str| -> Vec<String> {
        let passing = ["toft_process_resident_bytes", "toft_scrape_duration_seconds"];
        let lines = page.lines().filter(|line| !passing.iter().any(|name| line.contains(name)));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(kept(&inside), kept(&outside));
    for line in ["toft_site_live_blocks{site=\"stripped+0x", "toft_live_blocks{kind=\"large\"} 4"] {
        assert!(inside.contains(line), "{line}: {inside}");
    }
    let (inside, outside) = (parse(&inside).unwrap(), parse(&outside).unwrap());
    let resident = |page| sum(page, "toft_process_resident_bytes");
    assert!(resident(&inside).abs_diff(resident(&outside)) < 1 << 20);
    assert!(sum(&inside, "toft_live_bytes") >= target.bytes);
    // All that the page of the documentation has, and nothing else.
    let names: HashSet<&str> = outside.keys().map(|(name, _)| name.as_str()).collect();
    let table = include_str!("../../../../docs/metrics.md").split("| metric |").nth(1).unwrap();
    let heads = table.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    let told =
        heads.flat_map(|head| head.split([' ', ',', '`']).filter(|word| word.starts_with("toft_")));
    // That one is only there with several processes.
    assert_eq!(names, told.filter(|name| *name != "toft_processes").collect());
    // A block more is seen by both.
    target.grow();
    target.tell(b"m\n");
    let later = fs::read_to_string(program.with_extension("prom")).unwrap();
    assert_eq!(
        sum(&parse(&later).unwrap(), "toft_live_blocks"),
        sum(&inside, "toft_live_blocks") + 500
    );
    // Where the file is full it says so, and the program goes on.
    drop(target.child.stdin.take());
    assert!(target.child.wait().unwrap().success());
}
