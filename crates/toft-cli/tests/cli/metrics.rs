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

use crate::common::*;

/// Keeps blocks of three sites, and more of one at each line that it reads; prints the number of
/// its bytes. At a line that begins with m it writes its own figures into the file that its
/// argument names.
const PROGRAM: &str = include_str!("programs/metrics.c");

fn start() -> Target {
    let program = compiled("target", PROGRAM, &["-fno-builtin"]);
    start_program(&program).keeping(program)
}

fn start_program(program: &Path) -> Target {
    start_with(program, &[])
}

fn start_with(program: &Path, variables: &[(&str, &str)]) -> Target {
    let mut command = Command::new(program);
    command.envs(variables.iter().copied());
    Target::of(command.arg(program.with_extension("prom")))
}

/// The bytes that the program has by its own count.
fn bytes(target: &Target) -> u64 {
    target.line.parse().unwrap()
}

/// The samples of a page, by series.
type Samples = HashMap<String, f64>;

/// Reads a page, which Prometheus' own tool must accept.
#[track_caller]
fn parse(page: &str) -> Samples {
    let mut check = Command::new("promtool");
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut check = check.spawn().expect("the tests need promtool, of the package prometheus");
    check.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = check.wait_with_output().unwrap();
    assert!(output.status.success(), "{}\n{page}", stderr(&output));
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        (series.to_owned(), value.parse().unwrap())
    };
    page.lines().filter(|line| !line.starts_with('#')).map(sample).collect()
}

fn family(series: &str) -> &str {
    series.split('{').next().unwrap()
}

/// The sum over a family.
fn sum(samples: &Samples, name: &str) -> u64 {
    let values: Vec<f64> = samples
        .iter()
        .filter(|(series, _)| family(series) == name)
        .map(|(_, value)| *value)
        .collect();
    assert!(!values.is_empty(), "no {name}");
    values.iter().sum::<f64>() as u64
}

fn metrics(words: &[&str]) -> Samples {
    parse(&stdout(&succeeds(&[&["metrics"], words].concat())))
}

#[test]
fn figures_are_what_the_program_has() {
    let mut target = start();
    let before = metrics(&[&target.pid]);
    target.ask("g\n");
    let samples = metrics(&[&target.pid, "--top", "2"]);
    // stdio's own blocks: two buffers at most, which are the program's here.
    let live = sum(&samples, "toft_live_bytes");
    assert!((bytes(&target)..bytes(&target) + 4096).contains(&live), "{live} {}", bytes(&target));
    assert_eq!(sum(&samples, "toft_site_live_bytes"), live);
    assert_eq!(sum(&samples, "toft_live_blocks"), sum(&samples, "toft_site_live_blocks"));
    let of = |samples: &Samples, site: &str| -> f64 {
        let start = format!("toft_site_live_blocks{{site=\"{site}");
        let sites = samples.iter().filter(|(series, _)| series.starts_with(&start));
        sites.map(|(_, value)| *value).sum()
    };
    for (site, first, later) in [
        ("medium at target.c", 500.0, 1000.0),
        ("small at target.c", 3000.0, 0.0),
        ("large at target.c", 4.0, 4.0),
    ] {
        assert_eq!((of(&before, site), of(&samples, site)), (first, later), "{site}");
    }
    assert_eq!(of(&before, "other"), 0.0);
    let sites = samples.keys().filter(|series| family(series) == "toft_site_live_bytes").count();
    assert_eq!(sites, 3, "two and the others");
    assert_eq!(samples["toft_live_blocks{kind=\"large\"}"], 4.0);
    assert!(sum(&samples, "toft_process_resident_bytes") > live / 10);
    assert_eq!(sum(&samples, "toft_heaps"), 1);
    // And as JSON.
    let json = object(&["metrics", "--json", &target.pid]);
    assert_eq!(json["live_bytes"], live);
    assert_eq!(json["large_blocks"], 4);
}

/// Counters count, and the resident part of free memory is what the kernel has of it.
#[test]
fn counters_count_and_free_memory_says_what_is_resident() {
    let program = compiled("target", PROGRAM, &["-fno-builtin"]);
    let mut target = start_with(&program, &[("TOFT_ON_MISUSE", "ignore")]);
    let before = metrics(&[&target.pid]);
    assert_eq!(sum(&before, "toft_misuses_total"), 0);
    target.ask("p\n");
    let used = metrics(&[&target.pid]);
    let grown = |name: &str| sum(&used, name) - sum(&before, name);
    assert_eq!((grown("toft_allocations_total"), grown("toft_frees_total")), (5001, 5001));
    let live = sum(&used, "toft_allocations_total") - sum(&used, "toft_frees_total");
    assert_eq!(live, sum(&used, "toft_live_blocks"));
    let resident = |samples: &Samples| sum(samples, "toft_free_resident_bytes");
    assert!(resident(&used) <= sum(&used, "toft_free_bytes"));
    // The reclaimer may be faster than a reading. What a sweep has returned counts at its end, so
    // that a reading in its midst has neither.
    let returned = |samples: &Samples| sum(samples, "toft_returned_bytes_total");
    until("what was freed is resident or returned", || {
        let samples = metrics(&[&target.pid]);
        (resident(&samples) + returned(&samples) > 20 << 20).then_some(())
    });
    until("it has a reclaimer", || {
        toft().args(["purge", &target.pid]).output().unwrap().status.success().then_some(())
    });
    let purged = metrics(&[&target.pid]);
    assert!(resident(&purged) < 4 << 20, "{}", resident(&purged));
    assert!(returned(&purged) > 16 << 20, "{}", returned(&purged));
    target.ask("d\n");
    let samples = metrics(&[&target.pid]);
    assert_eq!(sum(&samples, "toft_misuses_total"), 1);
    let json = object(&["metrics", "--json", &target.pid]);
    assert_eq!(json["misuses"], 1);
    assert_eq!(json["frees"], sum(&samples, "toft_frees_total"));
    let page = stdout(&succeeds(&["metrics", &target.pid]));
    for line in page.lines().filter(|line| line.starts_with("# TYPE ")) {
        let is_counter = line.contains("_total ");
        assert_eq!(line.ends_with(" counter"), is_counter, "{line}");
    }
}

/// A block that a probe was notified of is live in every reading: here the probe sees all.
#[test]
fn blocks_that_a_probe_was_notified_of_are_live() {
    let mut target = start();
    let path = library();
    let notes = tool(Command::new("readelf").arg("-n").arg(&path).env("LC_ALL", "C"));
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
    let before = bytes(&target);
    // One byte in 512 KiB is chosen: some hundred blocks are.
    (0..20).for_each(|_| target.ask("g\n"));
    assert!(bytes(&target) > before + 20 * 500 * 5000);
    let samples = metrics(&[&target.pid]);
    let live = sum(&samples, "toft_live_bytes");
    assert!((bytes(&target)..bytes(&target) + 4096).contains(&live), "{live} {}", bytes(&target));
    // From inside the same: the program goes on to its end, and no bad call is reported.
    target.end();
}

#[test]
fn a_file_is_whole_and_goes_with_the_process() {
    let place = directory();
    let mut target = start();
    let path = place.path().join("toft.prom");
    succeeds(&["metrics", &target.pid, "-o", text(&path)]);
    let first = parse(&fs::read_to_string(&path).unwrap());
    let mut writer = toft();
    writer.args(["metrics", &target.pid, "-o", text(&path), "--every", "0.05"]);
    let mut writer = writer.stderr(Stdio::piped()).spawn().unwrap();
    let live = sum(&first, "toft_live_bytes");
    for _ in 0..3 {
        target.ask("g\n");
        // Whatever is read meanwhile is whole.
        until("the new figures", || {
            let samples = parse(&fs::read_to_string(&path).unwrap());
            (sum(&samples, "toft_live_bytes") >= bytes(&target)).then_some(())
        });
    }
    assert!(bytes(&target) > live);
    target.kill();
    assert!(until("it ends", || writer.try_wait().unwrap()).success());
    let mut printed = String::new();
    writer.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
    assert!(
        printed.contains(&format!("process {} has ended", target.pid)) && !path.exists(),
        "{printed}"
    );
    let left: Vec<_> =
        fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains(".new")), "{left:?}");
}

/// What is no file stays what it is, even for root; and a link leads to the new one.
#[test]
fn what_has_the_name_of_a_file_is_kept() {
    let place = directory();
    let mut target = start();
    let fifo = place.path().join("fifo");
    tool(Command::new("mkfifo").arg(&fifo));
    let reader = {
        let fifo = fifo.clone();
        std::thread::spawn(move || fs::read_to_string(fifo).unwrap())
    };
    succeeds(&["metrics", &target.pid, "-o", text(&fifo)]);
    assert!(sum(&parse(&reader.join().unwrap()), "toft_live_bytes") >= bytes(&target));
    assert!(!fs::metadata(&fifo).unwrap().is_file());
    let (link, led_to) = (place.path().join("link"), file(place.path(), "real", b"old", 0o644));
    std::os::unix::fs::symlink(&led_to, &link).unwrap();
    succeeds(&["metrics", &target.pid, "-o", text(&link)]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(!parse(&fs::read_to_string(led_to).unwrap()).is_empty());
    target.kill();
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
    let mut target = start();
    let path = place.path().join("toft.sock");
    // Another process has left one behind.
    drop(UnixListener::bind(&path).unwrap());
    let mut server = toft();
    server.args(["metrics", &target.pid, "--listen", text(&path)]);
    let mut server = server.stderr(Stdio::piped()).spawn().unwrap();
    let peer = until("it listens", || UnixStream::connect(&path).ok());
    // One that says nothing, and goes.
    drop(peer);
    let (status, body) = ask(UnixStream::connect(&path).unwrap(), "/metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let before = sum(&parse(&body), "toft_live_bytes");
    target.ask("g\n");
    let (_, body) = ask(UnixStream::connect(&path).unwrap(), "/metrics");
    assert!(sum(&parse(&body), "toft_live_bytes") > before);
    let mode = fs::symlink_metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}: for this user alone");
    let (status, _) = ask(UnixStream::connect(&path).unwrap(), "/else");
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    // A process listens there: a second one does not take the place.
    let second = refused(&["metrics", &target.pid, "--listen", text(&path)]);
    assert!(second.contains("cannot listen"), "{second}");
    target.kill();
    assert!(until("it ends", || server.try_wait().unwrap()).success());
    assert!(!path.exists());
}

/// Interrupted, the file and the socket go as they do with the process; what another program has
/// put there stays.
#[test]
fn what_stands_for_the_process_goes_with_an_interrupt() {
    let place = directory();
    let mut target = start();
    let (prom, socket) = (place.path().join("toft.prom"), place.path().join("toft.sock"));
    let start = |words: &[&str]| {
        let mut command = toft();
        command.args(["metrics", &target.pid]).args(words).stderr(Stdio::piped()).spawn().unwrap()
    };
    let end = |mut child: Child, signal: &str| {
        let number = child.id().to_string();
        tool(Command::new("kill").args([signal, &number]));
        assert!(until("it ends", || child.try_wait().unwrap()).success());
        let mut printed = String::new();
        child.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
        assert!(printed.contains("interrupted"), "{printed}");
    };
    // The message before the loop says that the handlers are there.
    let wait_for_message = |child: &mut Child| {
        let stderr = child.stderr.as_mut().unwrap();
        BufReader::new(stderr).read_line(&mut String::new()).unwrap();
    };
    for signal in ["-TERM", "-INT", "-HUP"] {
        let mut writer = start(&["-o", text(&prom), "--every", "60"]);
        wait_for_message(&mut writer);
        assert!(prom.exists());
        end(writer, signal);
        assert!(!prom.exists(), "{signal}");
        let mut server = start(&["--listen", text(&socket)]);
        wait_for_message(&mut server);
        assert!(socket.exists());
        end(server, signal);
        assert!(!socket.exists(), "{signal}");
    }
    let mut server = start(&["--listen", text(&socket)]);
    wait_for_message(&mut server);
    fs::remove_file(&socket).unwrap();
    let _other = UnixListener::bind(&socket).unwrap();
    end(server, "-TERM");
    assert!(socket.exists(), "it is somebody else's");
    target.kill();
}

/// `toft metrics WORDS`, which listens at an address.
struct Server {
    _child: Running,
    address: String,
    /// The messages before the one that has the address.
    before: Vec<String>,
}

impl Server {
    fn start(words: &[&str]) -> Server {
        let mut server = toft();
        let mut child = server.arg("metrics").args(words).stderr(Stdio::piped()).spawn().unwrap();
        let (mut before, mut lines) =
            (vec![], BufReader::new(child.stderr.take().unwrap()).lines());
        let line = loop {
            match lines.next().unwrap().unwrap() {
                line if line.contains("http://") => break line,
                line => before.push(line),
            }
        };
        let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap();
        Server { address: address.to_owned(), _child: Running(child), before }
    }

    fn ask(&self, path: &str) -> (String, String) {
        ask(TcpStream::connect(&self.address).unwrap(), path)
    }
}

#[test]
fn an_address_of_this_machine_answers() {
    let target = start();
    let server = Server::start(&[&target.pid, "--listen", "127.0.0.1:0"]);
    let (status, body) = server.ask("/metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(sum(&parse(&body), "toft_live_bytes") > 0);
}

#[test]
fn every_address_answers_if_that_is_asked_for() {
    let target = start();
    let server = Server::start(&[&target.pid, "--listen", "0.0.0.0:0", "--expose"]);
    assert!(server.address.starts_with("0.0.0.0:"), "{}", server.address);
    assert_eq!(server.ask("/metrics").0, "HTTP/1.1 200 OK");
}

#[test]
fn pprof_reads_the_heap_from_the_address() {
    let place = directory();
    let target = start();
    let server = Server::start(&[&target.pid, "--listen", "127.0.0.1:0"]);
    let url = format!("http://{}/debug/pprof/heap", server.address);
    let mut pprof = Command::new("go");
    pprof.args(["tool", "pprof", "-top", "-sample_index=inuse_space", "-unit=B", &url]);
    let table = tool(pprof.env("PPROF_TMPDIR", place.path()));
    let live = sum(&metrics(&[&target.pid]), "toft_live_bytes");
    assert!(table.contains(&format!("of {live}B total")), "{table}");
    assert_contains(&table, &[" medium", " large"]);
    // It keeps no stacks.
    let (status, why) = server.ask("/debug/pprof/allocs");
    assert!(status.contains("503") && why.contains("--sample 512k"), "{why}");
    // pprof prints the reason.
    let mut pprof = Command::new("go");
    pprof.args(["tool", "pprof", "-top", &url.replace("heap", "allocs")]);
    pprof.env("PPROF_TMPDIR", place.path());
    let printed = stderr(&pprof.output().unwrap());
    assert!(printed.contains("--sample 512k"), "{printed}");
}

#[test]
fn pprof_reads_the_sampled_stacks_from_the_address() {
    let place = directory();
    let program = compile(place.path(), "target", PROGRAM, &["-fno-builtin"]);
    let target = Target::with(&program, &[("TOFT_SAMPLE", "1")]);
    let server = Server::start(&[&target.pid, "--listen", "127.0.0.1:0"]);
    let top = |url: &str, index: &str| {
        let mut pprof = Command::new("go");
        let url = format!("http://{}{url}", server.address);
        pprof.args(["tool", "pprof", "-top", index, "-unit=B", "-nodefraction=0", &url]);
        tool(pprof.env("PPROF_TMPDIR", place.path()))
    };
    // With every byte chosen the estimates are exact.
    let table = top("/debug/pprof/allocs", "-sample_index=sampled_inuse_space");
    let live = sum(&metrics(&[&target.pid]), "toft_live_bytes");
    assert!(table.contains(&format!("of {live}B total")), "{live}: {table}");
    assert_contains(&table, &[" medium", " large", " main"]);
    // Each has its four values alone, and a reader that chooses none begins with the last.
    for (path, prefix) in [("heap", ""), ("allocs", "sampled_")] {
        let url = format!("http://{}/debug/pprof/{path}", server.address);
        let mut pprof = Command::new("go");
        pprof.args(["tool", "pprof", "-raw", &url]).env("PPROF_TMPDIR", place.path());
        let raw = tool(&mut pprof);
        let values = ["alloc_objects/count", "alloc_space/bytes", "inuse_objects/count"]
            .map(|value| format!("{prefix}{value} "));
        let line = format!("\n{}{prefix}inuse_space/bytes[dflt]\n", values.concat());
        assert!(raw.contains(&line), "{line}: {raw}");
    }
}

/// Without a number the profile has all processes, and each sample says of which it is.
#[test]
fn pprof_reads_the_heaps_of_several_processes() {
    let place = directory();
    let program = compile(place.path(), "target", PROGRAM, &["-fno-builtin"]);
    let (mut first, second) =
        (Target::with(&program, &[("TOFT_SAMPLE", "1")]), start_program(&program));
    let live = |target: &Target| sum(&metrics(&[&target.pid]), "toft_live_bytes");
    first.ask("g\n");
    let (of_first, of_second) = (live(&first), live(&second));
    assert_ne!(of_first, of_second);
    let server = Server::start(&[&first.pid, &second.pid, "--listen", "127.0.0.1:0"]);
    let top = |path: &str, words: &[&str]| {
        let mut pprof = Command::new("go");
        pprof.args(["tool", "pprof", "-top", "-unit=B", "-nodefraction=0"]).args(words);
        pprof.arg(format!("http://{}/debug/pprof/{path}", server.address));
        tool(pprof.env("PPROF_TMPDIR", place.path()))
    };
    let all = top("heap", &[]);
    assert!(all.contains(&format!("of {}B total", of_first + of_second)), "{all}");
    let second_alone = format!("{of_second}B,");
    let shown = top("heap", &[&format!("-tagfocus=pid=^{}$", second.pid)]);
    assert!(shown.contains(&second_alone), "{of_second}: {shown}");
    let shown = top(&format!("heap?pid={}", second.pid), &[]);
    assert!(shown.contains(&format!("of {of_second}B total")), "{of_second}: {shown}");
    let tags = tool(
        Command::new("go")
            .args(["tool", "pprof", "-tags"])
            .arg(format!("http://{}/debug/pprof/heap", server.address))
            .env("PPROF_TMPDIR", place.path()),
    );
    assert_contains(&tags, &[" process: Total", " target", " pid: Total", &first.pid, &second.pid]);
    // Only the first has stacks.
    let stacks = top("allocs", &["-sample_index=sampled_inuse_space"]);
    assert!(stacks.contains(&format!("of {of_first}B total")), "{of_first}: {stacks}");
    let (status, why) = server.ask(&format!("/debug/pprof/allocs?pid={}", second.pid));
    assert!(status.contains("503") && why.contains("--sample 512k"), "{why}");
}

#[test]
fn processes_of_a_name_come_and_go() {
    let name = format!("fleet-{}", std::process::id());
    let program = compiled(&name, PROGRAM, &["-fno-builtin"]);
    let words = ["--name", &format!("{}*", &name[..name.len() - 1]), "--listen", "127.0.0.1:0"];
    let server = Server::start(&words);
    let pids = || -> HashSet<String> {
        let samples = parse(&server.ask("/metrics").1);
        let live = samples.keys().filter(|series| family(series) == "toft_live_bytes");
        let pid =
            |series: &String| series.split("pid=\"").nth(1)?.split('"').next().map(str::to_owned);
        let pids: HashSet<String> = live.filter_map(pid).collect();
        assert_eq!(sum(&samples, "toft_processes"), pids.len() as u64);
        pids
    };
    assert!(pids().is_empty());
    let (status, why) = server.ask("/debug/pprof/heap");
    assert!(status.contains("503") && why.contains("no process is there"), "{why}");
    let [line] = &server.before[..] else { panic!("one line is expected: {:?}", server.before) };
    assert!(line.contains(&format!(" is called {}; ", words[1])), "{line}");
    let mut first = start_program(&program);
    let second = start_program(&program);
    assert_eq!(pids(), HashSet::from([first.pid.clone(), second.pid.clone()]));
    first.kill();
    assert_eq!(pids(), HashSet::from([second.pid.clone()]));
    let again = start_program(&program);
    assert_eq!(Server::start(&words).before, [""; 0], "some are there");
    assert_eq!(pids(), HashSet::from([again.pid.clone(), second.pid.clone()]));
    // Of two that are named each is there, and once.
    let two = metrics(&[&again.pid, &second.pid]);
    assert_eq!(sum(&two, "toft_live_bytes"), {
        let of = |target: &Target| sum(&metrics(&[&target.pid]), "toft_live_bytes");
        of(&again) + of(&second)
    });
    let json = object(&["metrics", "--json", &again.pid, &second.pid]);
    assert_eq!(json["processes"].as_array().unwrap().len(), 2);
    let why = refused(&["metrics", "--name", "no-such-name"]);
    assert!(why.contains("is called no-such-name"), "{why}");
}

#[test]
fn what_cannot_be_written_or_served_is_refused() {
    let place = directory();
    let target = start();
    let why = refused(&["metrics", &target.pid, "-o", "/no/such/folder/a.prom"]);
    assert!(why.contains("cannot write /no/such/folder/a.prom"), "{why}");
    for (words, why) in [
        (&["metrics", &target.pid, "--listen", "0.0.0.0:9464"][..], "others could read it"),
        (&["metrics"], "PID"),
    ] {
        let output = toft().args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{words:?}: {}", stderr(&output));
    }
    let taken = file(place.path(), "taken", b"mine", 0o644);
    refused(&["metrics", &target.pid, "--listen", text(&taken)]);
    assert_eq!(fs::read(&taken).unwrap(), b"mine");
}

/// The library writes from inside what the command writes from outside: of a process that is at
/// rest each byte is the same, but for what looking itself changes. It is stripped, so that neither
/// has more than places.
#[test]
fn from_inside_and_from_outside_it_is_the_same_page() {
    let program = compiled("stripped", PROGRAM, &["-fno-builtin", "-s"]);
    let variables = [("TOFT_ON_MISUSE", "ignore"), ("TOFT_RECLAIM", "off")];
    let mut target = start_with(&program, &variables);
    target.ask("g\n");
    target.ask("p\n");
    target.ask("d\n");
    target.ask("m\n");
    let inside = fs::read_to_string(program.with_extension("prom")).unwrap();
    let outside = stdout(&succeeds(&["metrics", &target.pid]));
    let kept = |page: &str| -> Vec<String> {
        let passing = ["toft_process_resident_bytes", "toft_scrape_duration_seconds"];
        let lines = page.lines().filter(|line| !passing.iter().any(|name| line.contains(name)));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(kept(&inside), kept(&outside));
    for line in ["toft_site_live_blocks{site=\"stripped+0x", "toft_live_blocks{kind=\"large\"} 4"] {
        assert!(inside.contains(line), "{line}: {inside}");
    }
    let (inside, outside) = (parse(&inside), parse(&outside));
    let resident = |page| sum(page, "toft_process_resident_bytes");
    assert!(resident(&inside).abs_diff(resident(&outside)) < 1 << 20);
    assert!(sum(&inside, "toft_live_bytes") >= bytes(&target));
    // None of what is compared is nothing.
    for name in ["toft_free_resident_bytes", "toft_frees_total", "toft_misuses_total"] {
        assert!(sum(&inside, name) > 0, "{name}");
    }
    assert!(sum(&inside, "toft_free_resident_bytes") > 20 << 20);
    // All that the page of the documentation has, and nothing else.
    let names: HashSet<&str> = outside.keys().map(|series| family(series)).collect();
    let table = include_str!("../../../../docs/metrics.md").split("| metric |").nth(1).unwrap();
    let heads = table.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    let documented =
        heads.flat_map(|head| head.split([' ', ',', '`']).filter(|word| word.starts_with("toft_")));
    // That one is only there with several processes.
    assert_eq!(names, documented.filter(|name| *name != "toft_processes").collect());
    // A block more is seen by both.
    target.ask("g\n");
    target.ask("m\n");
    let later = fs::read_to_string(program.with_extension("prom")).unwrap();
    assert_eq!(sum(&parse(&later), "toft_live_blocks"), sum(&inside, "toft_live_blocks") + 500);
    target.end();
}
