//! The probes of `otel_memory`, as tracers see them: the notes in the file, what gdb is told at
//! each, and what bpftrace adds up.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use toft_bench::child::Killed;
use toft_tests::compile::compiler;
use toft_tests::library::{is_secure, library, scratch_dir};
use toft_tests::process::command;
use toft_tests::trials::{main as run, needing, trial};

/// Bytes from one allocation that is told to the next, on average, in these tests.
const INTERVAL: u64 = 16 << 10;

/// Name, arguments, and address of the semaphore.
fn notes(library: &Path) -> Result<Vec<(String, String, u64)>, String> {
    let mut readelf = Command::new("readelf");
    let out = readelf.arg("-n").arg(library).env("LC_ALL", "C").output();
    let out = out.map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let mut notes = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if line != "Provider: otel_memory" {
            continue;
        }
        let mut field = |name: &str| {
            let line = lines.next().unwrap_or("");
            let value = line.strip_prefix(name).ok_or(format!("{name} expected: {line}"))?;
            Ok::<_, String>(value.trim().to_owned())
        };
        let (name, place, arguments) = (field("Name:")?, field("Location:")?, field("Arguments:")?);
        let number = |word: &str| {
            let behind = place.split(word).nth(1)?.trim().split(',').next()?;
            u64::from_str_radix(behind.trim_start_matches("0x"), 16).ok()
        };
        if number("Base:").is_none_or(|base| base == 0) {
            return Err(format!("{name}: gdb needs a base: {place}"));
        }
        notes.push((name, arguments, number("Semaphore:").ok_or("no semaphore")?));
    }
    notes.sort();
    Ok(notes)
}

/// Whether addresses of code are offsets in the file: perf sets its probes by that.
fn code_lies_where_perf_looks(library: &Path) -> Result<(), String> {
    let mut readelf = Command::new("readelf");
    let out = readelf.arg("-lW").arg(library).env("LC_ALL", "C").output();
    let out = out.map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let code = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let code: Vec<_> =
        code.filter(|words| words.first() == Some(&"LOAD") && words.get(7) == Some(&"E")).collect();
    let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    match code.as_slice() {
        [words] if number(words[1]).is_some() && number(words[1]) == number(words[2]) => Ok(()),
        _ => Err(format!("{code:?}\n{text}")),
    }
}

/// Why no tracer can set a probe in a program, where none can.
fn no_uprobes() -> Option<String> {
    let events = "/sys/kernel/tracing/uprobe_events";
    std::fs::OpenOptions::new().append(true).open(events).err().map(|e| format!("{events}: {e}"))
}

/// Blocks that the program has while the tracer looks on.
const STEADY: u64 = 200_000;

/// bpftrace attaches to a running program, and what the chosen blocks stand for adds up to what the
/// program has had.
fn bpftrace_adds_up(library: &Path) -> Result<(), String> {
    let wrong = |e: std::io::Error| e.to_string();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("probes/steady.c");
    let program = scratch_dir("probes").join("steady");
    let mut compile = compiler(false);
    compile.args(["-fno-builtin", "-o"]).arg(&program).arg(source);
    if !compile.status().map_err(wrong)?.success() {
        return Err(format!("{compile:?}"));
    }
    let mut steady = command(&program);
    steady.arg(STEADY.to_string()).env("LD_PRELOAD", library);
    steady.env("TOFT_SAMPLE", INTERVAL.to_string());
    let steady = steady.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut steady = Killed(steady.map_err(wrong)?);
    let lib = library.display();
    let script = format!(
        "usdt:{lib}:otel_memory:alloc {{ @stands = sum(arg2); @told = count(); }}\n\
         usdt:{lib}:otel_memory:free {{ @freed = count(); }}\n\
         interval:s:1 {{ printf(\"looking\\n\"); }}"
    );
    let mut tracer = command("bpftrace");
    tracer.args(["-B", "line", "-p", &steady.pid(), "-e", &script]);
    let tracer = tracer.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut tracer = Killed(tracer.map_err(wrong)?);
    let mut told = BufReader::new(tracer.stdout.take().ok_or("no output")?);
    let mut text = String::new();
    while !text.ends_with("looking\n") {
        if told.read_line(&mut text).map_err(wrong)? == 0 {
            let mut why = String::new();
            tracer.stderr.take().map(|mut e| e.read_to_string(&mut why));
            return Err(format!("bpftrace has ended: {text}{why}"));
        }
    }
    steady.stdin.as_mut().ok_or("no input")?.write_all(b"go\n").map_err(wrong)?;
    let mut had = String::new();
    let output = steady.stdout.as_mut().ok_or("no output")?;
    BufReader::new(output).read_line(&mut had).map_err(wrong)?;
    let had: f64 = had.trim().parse().map_err(|_| format!("the program said {had}"))?;
    let number = tracer.pid();
    command("kill").args(["-INT", &number]).status().map_err(wrong)?;
    told.read_to_string(&mut text).map_err(wrong)?;
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse::<f64>().ok()).ok_or(format!("{name}\n{text}"))
    };
    let (stands, all, freed) = (value("@stands:")?, value("@told:")?, value("@freed:")?);
    // Some 12 000 are chosen: one standard deviation is less than 1 %. Nine of ten are freed.
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 0.06;
    if close(stands, had) && close(freed, 0.9 * all) && all > 5_000.0 {
        return Ok(());
    }
    Err(format!("{stands} in {all}, {freed} freed, and the program had {had}\n{text}"))
}

fn the_notes_name_every_probe(library: &Path) -> Result<(), String> {
    let found = notes(library)?;
    let shown: Vec<_> =
        found.iter().map(|(name, args, _)| (name.as_str(), args.as_str())).collect();
    let wanted = [
        ("alloc", "8@%rdi 8@%rsi 8@%rdx"),
        ("free", "8@%rdi"),
        ("mmap", "8@%rdi 8@%rsi"),
        ("munmap", "8@%rdi 8@%rsi"),
    ];
    if shown != wanted {
        return Err(format!("{shown:?}"));
    }
    let semaphores: HashSet<u64> = found.iter().map(|&(_, _, at)| at).collect();
    if semaphores.len() == wanted.len() && !semaphores.contains(&0) {
        return Ok(());
    }
    Err(format!("each has a semaphore of its own: {found:?}"))
}

/// The program, compiled once.
fn told() -> Result<PathBuf, String> {
    static TOLD: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    TOLD.get_or_init(|| {
        let binary = scratch_dir("probes").join("told");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("probes/told.c");
        let mut compile = compiler(false);
        compile.arg("-pthread").arg(&source).arg("-o").arg(&binary);
        let out = compile.output().map_err(|e| e.to_string())?;
        if out.status.success() {
            return Ok(binary);
        }
        Err(format!("{compile:?}\n{}", String::from_utf8_lossy(&out.stderr)))
    })
    .clone()
}

/// Runs the program in gdb on the library, with these commands once `main` is reached; what gdb and
/// the program said, and what the program recorded. An interval is set by `TOFT_SAMPLE`, with which
/// the library itself follows blocks from the start.
fn in_gdb(
    library: &Path,
    name: &str,
    interval: Option<u64>,
    commands: &str,
) -> Result<[String; 2], String> {
    let (script, record) =
        (scratch_dir("probes").join(format!("{name}.gdb")), scratch_dir("probes").join(name));
    let interval =
        interval.map_or(String::new(), |bytes| format!("set environment TOFT_SAMPLE {bytes}\n"));
    let begin = format!(
        "set pagination off\nset confirm off\nset startup-with-shell off\nset debuginfod enabled off\n\
         set environment LD_PRELOAD {}\n{interval}\
         break main\nrun {} {name}\n{commands}\n",
        library.display(),
        record.display()
    );
    std::fs::write(&script, begin).map_err(|e| e.to_string())?;
    let mut gdb = command("gdb");
    gdb.args(["-q", "-nx", "-batch", "-x"]).arg(&script).arg(told()?);
    let out = gdb.output().map_err(|e| e.to_string())?;
    let said = [out.stdout, out.stderr].concat();
    let record =
        std::fs::read_to_string(&record).map_err(|e| format!("{}: {e}", record.display()))?;
    Ok([String::from_utf8_lossy(&said).into_owned(), record])
}

/// What gdb is to print at a probe, and go on.
fn at(probe: &str, arguments: usize) -> String {
    let (forms, values): (Vec<_>, Vec<_>) =
        (0..arguments).map(|i| ("%lx", format!("$_probe_arg{i}"))).unzip();
    format!(
        "break -probe-stap otel_memory:{probe}\ncommands\nsilent\nprintf \"{probe}: {}\\n\", {}\ncontinue\nend\n",
        forms.join(" "),
        values.join(", ")
    )
}

/// The numbers of each line that begins with a word.
fn numbers(text: &str, word: &str) -> Vec<Vec<u64>> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(word));
    lines
        .map(|l| l.split_whitespace().filter_map(|n| u64::from_str_radix(n, 16).ok()).collect())
        .collect()
}

/// Each reported allocation is one, with its size, and what they stand for adds up. Each reported
/// block that is freed is reported again, and no other.
fn gdb_is_told(library: &Path) -> Result<(), String> {
    let commands = at("alloc", 3) + &at("free", 1) + &at("mmap", 2) + "continue";
    let [said, record] = in_gdb(library, "all", Some(INTERVAL), &commands)?;
    let mut live: HashMap<u64, u64> = HashMap::new();
    let (mut bytes, mut size_of) = (0, HashMap::new());
    let mut frees = Vec::new();
    for line in record.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let address = u64::from_str_radix(words[1], 16).map_err(|e| e.to_string())?;
        if words[0] == "a" {
            let size: u64 = words[2].parse().map_err(|_| line.to_owned())?;
            bytes += size;
            size_of.entry(address).or_insert_with(HashSet::new).insert(size);
            live.insert(address, size);
        } else {
            frees.push(address);
            live.remove(&address);
        }
    }
    let told = numbers(&said, "alloc: ");
    let mut weight = 0;
    for event in &told {
        let [address, size, stands_for] = event[..] else { return Err(format!("{event:?}")) };
        if !size_of.get(&address).is_some_and(|sizes| sizes.contains(&size)) {
            return Err(format!("{address:x} of {size} bytes is none of the program's\n{said}"));
        }
        if stands_for == 0 || stands_for % INTERVAL != 0 {
            return Err(format!("{stands_for} is no multiple of the interval"));
        }
        weight += stands_for;
    }
    // Six standard deviations of a Poisson process.
    let expected = bytes as f64 / INTERVAL as f64;
    let off = (weight as f64 / INTERVAL as f64 - expected).abs();
    if off > 6.0 * expected.sqrt() {
        return Err(format!("{weight} bytes are told of, and there were {bytes}\n{said}"));
    }
    // In the order in which they came: a free is of what was told and not freed since. Other blocks
    // that are freed are libc's, of which none saw the allocation before main.
    let mut known = HashSet::new();
    let (mut freed, mut by_another) = (0, 0);
    let events = said.lines().filter(|l| l.starts_with("alloc: ") || l.starts_with("free: "));
    for line in events {
        let address = line.split(' ').nth(1).and_then(|n| u64::from_str_radix(n, 16).ok());
        let address = address.ok_or(line)?;
        if line.starts_with("alloc") {
            if !known.insert(address) {
                return Err(format!("{address:x} is told of twice without a free\n{said}"));
            }
        } else if known.remove(&address) {
            freed += 1;
            by_another += u32::from(frees.iter().filter(|&&f| f == address).count() == 1);
        } else if size_of.contains_key(&address) {
            return Err(format!("{address:x} is freed and was not told of\n{said}"));
        }
    }
    let kept: Vec<_> = known.iter().filter(|address| !live.contains_key(address)).collect();
    if !kept.is_empty() {
        return Err(format!("frees of these were not told: {kept:x?}\n{said}"));
    }
    if freed < 20 || by_another < 5 || known.is_empty() {
        return Err(format!(
            "{freed} frees, {by_another} of what was had once, {} live",
            known.len()
        ));
    }
    if numbers(&said, "mmap: ").iter().any(|event| event.len() == 2 && event[1] >= 3 << 20) {
        return Ok(());
    }
    Err(format!("the mapping of 3 MiB is not told\n{said}"))
}

/// A breakpoint on the nop that raises no semaphore is never reached; with the semaphore it is.
fn nothing_is_told_to_nobody(library: &Path) -> Result<(), String> {
    let at_alloc =
        notes(library)?.into_iter().find(|(name, ..)| name == "alloc").ok_or("no alloc")?.2;
    let place = "python\nimport re\ntext = gdb.execute('info probes stap otel_memory alloc', to_string=True)\n\
                 gdb.execute('set $place = ' + re.search(r'alloc +(0x[0-9a-f]+)', text).group(1))\n\
                 base = [l for l in open('/proc/%d/maps' % gdb.selected_inferior().pid) if 'libtoft' in l][0]\n\
                 gdb.execute('set $base = 0x' + base.split('-')[0])\nend\n";
    let stop = "break *$place\ncommands\nsilent\nprintf \"alloc: %lx\\n\", $rdi\ncontinue\nend\n";
    let [said, _] = in_gdb(library, "unasked", None, &format!("{place}{stop}continue"))?;
    if !said.contains("exited normally") || said.contains("alloc: ") {
        return Err(format!("no tracer had asked\n{said}"));
    }
    let raised = format!("{place}{stop}set {{short}}($base + {at_alloc:#x}) = 1\ncontinue");
    let [said, _] = in_gdb(library, "asked", None, &raised)?;
    // Some ten are chosen, of which one is of 3 MiB.
    if said.contains("exited normally") && !numbers(&said, "alloc: ").is_empty() {
        return Ok(());
    }
    Err(format!("a tracer had asked\n{said}"))
}

/// A second free of a block that was told is named as any other's. Every block is told here.
fn a_told_block_is_not_freed_twice(library: &Path) -> Result<(), String> {
    let commands = format!("{}{}continue", at("alloc", 1), at("free", 1));
    let [said, _] = in_gdb(library, "twice", Some(1), &commands)?;
    let named = said.lines().find_map(|line| line.split("toft: double free: free(0x").nth(1));
    let address = named.and_then(|rest| rest.split(')').next());
    let events = |address| format!("alloc: {address}\nfree: {address}\n");
    match address {
        Some(address) if events(address).lines().all(|event| said.contains(event)) => Ok(()),
        _ => Err(said),
    }
}

type Body = fn(&Path) -> Result<(), String>;

fn main() {
    let needs: Vec<_> =
        ["readelf", "gdb", "cc"].into_iter().zip(["binutils", "gdb", "gcc"]).collect();
    let needs: Vec<_> = needs.into_iter().map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
    let all: [(&str, Body); 5] = [
        ("the_notes_name_every_probe", the_notes_name_every_probe),
        ("code_lies_where_perf_looks", code_lies_where_perf_looks),
        ("gdb_is_told", gdb_is_told),
        ("nothing_is_told_to_nobody", nothing_is_told_to_nobody),
        ("a_told_block_is_not_freed_twice", a_told_block_is_not_freed_twice),
    ];
    // The secure build has no probes.
    let path = library().path().filter(|_| !is_secure());
    let traced = path.map(|path| match no_uprobes() {
        None => {
            let tools = [("bpftrace", "bpftrace"), ("cc", "gcc")];
            let tools = tools.map(|(tool, package)| (tool.to_owned(), package.to_owned()));
            needing("bpftrace_adds_up", &tools, move || bpftrace_adds_up(path))
        }
        Some(why) => trial(format!("bpftrace_adds_up (no uprobes here: {why})"), || Ok(()))
            .with_ignored_flag(true),
    });
    let trials = path.into_iter().flat_map(|path| {
        all.map(|(name, body)| {
            let path = path.to_owned();
            needing(name, &needs, move || body(&path))
        })
    });
    run(trials.chain(traced).collect())
}
