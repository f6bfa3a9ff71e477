//! The labels of call sites in C++ and Rust: functions of the program, not those of containers.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::*;
use crate::heap::pprof_top;
use serde_json::Value;

/// Each function has its own call site if the containers are inlined. If not, `read_names` and
/// `read_lines` share one.
const CPP: &str = r#"
#include <stdio.h>
#include <unistd.h>
#include <vector>
static std::vector<std::vector<char>> names, lines;
static std::vector<std::vector<int>> numbers;
__attribute__((noinline)) void keep_numbers() {
    for (int i = 0; i < 10000; i++) { std::vector<int> v(25); v[0] = i; numbers[i].swap(v); }
}
__attribute__((noinline)) void read_names() { for (int i = 0; i < 10000; i++) { std::vector<char> v(300); v[0] = 1; names[i].swap(v); } }
__attribute__((noinline)) void read_lines() { for (int i = 0; i < 30000; i++) { std::vector<char> v(300); v[0] = 1; lines[i].swap(v); } }
int main() {
    numbers.resize(10000); names.resize(10000); lines.resize(30000);
    keep_numbers(); read_names(); read_lines();
    puts("ready"); fflush(stdout); pause();
}
"#;

const RUST: &str = r#"
#[inline(never)]
fn read_names(names: &mut Vec<String>) { for i in 0..10000 { names.push(format!("{i:300}")); } }
#[inline(never)]
fn read_lines(lines: &mut Vec<Box<[u8; 300]>>) { for i in 0..30000 { lines.push(Box::new([i as u8; 300])); } }
fn main() {
    let (mut names, mut lines) = (Vec::with_capacity(10000), Vec::with_capacity(30000));
    read_names(&mut names);
    read_lines(&mut lines);
    println!("ready");
    std::thread::park();
    drop((names, lines));
}
"#;

const RUSTC: [&str; 5] = ["rustc", "-g", "-O", "--edition", "2021"];

/// Builds `program` from a source of this name.
fn built(source: &str, name: &str, compiler: &[&str]) -> Program {
    Program::made(|folder| {
        build(&file(folder, name, source.as_bytes(), 0o644), "program", compiler)
    })
}

/// Starts a program that gives each call site its own partition.
fn start(variables: &[(&str, &str)], program: &Path) -> Target {
    Target::with(program, &[&[("TOFT_PARTITIONS", "exact")], variables].concat())
}

/// What `toft heap` prints of a program.
fn heap(target: &Target, options: &[&str]) -> String {
    heap_with(target, &[], options)
}

fn heap_with(target: &Target, variables: &[(&str, &str)], options: &[&str]) -> String {
    let mut command = toft();
    command.env_remove("DEBUGINFOD_URLS").envs(variables.iter().copied());
    let output = ends_with(0, command.arg("heap").args(options).arg(&target.pid).output().unwrap());
    stdout(&output)
}

/// The line of a table that has this in it.
#[track_caller]
fn line<'a>(table: &'a str, part: &str) -> &'a str {
    table.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("no {part} in {table}"))
}

#[test]
fn a_site_with_inlined_containers_is_named_by_the_function_of_the_program() {
    let program = built(CPP, "program.cc", &["g++", "-g", "-O2"]);
    let running = start(&[], &program);
    let table = heap(&running, &[]);
    assert!(line(&table, "keep_numbers").contains("keep_numbers at program.cc:"), "{table}");
    assert!(!table.contains("allocator"), "{table}");

    let table = heap(&running, &["--full"]);
    let at = table.find("keep_numbers at program.cc:").unwrap();
    let all: Vec<_> = table[at..].lines().skip(1).take_while(|line| line.contains(" < ")).collect();
    assert!(all.len() > 2 && all[0].contains("allocate"), "{table}");
    assert!(all.last().unwrap().contains("keep_numbers()"), "{table}");

    let profile: Value = serde_json::from_str(&heap(&running, &["--json"])).unwrap();
    let rows = profile["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["label"]["function"] == "keep_numbers");
    assert!(row.unwrap()["frames"].as_array().unwrap().len() > 2, "{profile}");
}

#[test]
fn samples_distinguish_callers_that_share_code_of_a_library() {
    // Without optimization every function has a frame pointer, and nothing is inlined.
    let program = built(CPP, "program.cc", &["g++", "-g", "-O0"]);
    let running = start(&[], &program);
    let table = heap(&running, &[]);
    let note = line(&table, "come from functions of libraries");
    assert!(note.contains("TOFT_SAMPLE=512k"), "{table}");
    assert!(!table.contains("read_lines") && !table.contains("about "), "{table}");
    drop(running);

    let running = start(&[("TOFT_SAMPLE", "4k")], &program);
    let table = heap(&running, &[]);
    let of = |caller: &str| {
        let line = line(&table, &format!("% from {caller} at program.cc:"));
        let (_, share) = line.split_once("about ").unwrap();
        share.split_once('%').unwrap().0.parse::<f64>().unwrap()
    };
    // Three quarters and one; thousands of samples.
    let (lines, names) = (of("read_lines"), of("read_names"));
    assert!((65.0..85.0).contains(&lines) && (15.0..35.0).contains(&names), "{table}");
    assert!(!table.contains("come from functions of libraries"), "{table}");
}

#[test]
fn samples_distinguish_callers_in_rust() {
    let program = built(RUST, "program.rs", &RUSTC);
    let running = start(&[], &program);
    line(&heap(&running, &[]), "come from functions of libraries");
    drop(running);

    let running = start(&[("TOFT_SAMPLE", "4k")], &program);
    let table = heap(&running, &[]);
    // The compiler has made the call to the allocator the last one there.
    line(&table, "program::read_lines at program.rs:");
    line(&table, "% from program::read_names at program.rs:");
}

/// `toft run` looks through the libraries of a language, whatever its options. A choice of
/// partitions turns that off.
#[track_caller]
fn shows_its_own_functions(program: &Path, names: &str, lines: &str, library: &str) {
    let [own, shared] = tables(program);
    assert!(own.contains(names) && own.contains(lines) && !own.contains(library), "{own}");
    assert!(shared.contains(library) && !shared.contains(names), "{shared}");
}

/// What a program's profiles show as `toft run` starts it, and without wrappers.
fn tables(program: &Path) -> [String; 2] {
    let directory = directory();
    let profile = directory.path().join("profile.toft");
    let table = |options: &[&str]| {
        let mut run = toft();
        let variable = format!("TOFT_PROFILE={}", text(&profile));
        run.args(["run", "--env", &variable]).args(options).arg("--").arg(program);
        tool(&mut run);
        stdout(&succeeds(&["report", text(&profile)]))
    };
    [table(&[]), table(&["--env", "TOFT_PARTITIONS=exact"])]
}

#[test]
fn a_rust_program_that_is_run_shows_its_own_functions() {
    let source = RUST.replace("std::thread::park();", "").replace("drop(", "std::mem::forget(");
    let program = built(&source, "program.rs", &RUSTC);
    let [names, lines] =
        ["read_names", "read_lines"].map(|f| format!("program::{f} at program.rs:"));
    shows_its_own_functions(&program, &names, &lines, "finish_grow");
    // Without optimization nothing is inlined.
    let source = "fn read_names() -> Vec<u8> { vec![1; 10_000] }\n\
        fn read_lines() -> Vec<u64> { vec![1; 3000] }\n\
        fn main() { std::mem::forget((read_names(), read_lines())); }";
    let program = built(source, "program.rs", &["rustc", "-g"]);
    shows_its_own_functions(&program, &names, &lines, "try_allocate_in");
}

#[test]
fn a_cxx_program_that_is_run_shows_its_own_functions() {
    // What no destructor frees is live at the exit.
    let keep = "new auto(std::move(names)); new auto(std::move(lines));";
    let source = CPP.replace("pause();", keep);
    // Nothing is inlined, so all blocks come from one function of the library.
    let program = built(&source, "program.cc", &["g++", "-g", "-O0"]);
    let [names, lines] = ["read_names", "read_lines"].map(|f| format!("{f} at program.cc:"));
    shows_its_own_functions(&program, &names, &lines, "::allocate");
}

/// `make_node` and `make_pair` allocate by a jump, so that they have no frame. The return address
/// is in their callers. `make_item` has a frame. `my_alloc` is looked through, as named.
const TAIL_CALLS: &str = r#"
#include <stdlib.h>
#include <unistd.h>
#include <stdio.h>
#define NOINLINE __attribute__((noinline))
char *all[6000];
NOINLINE void *emergency(void) { return malloc(1 << 20); }
NOINLINE void *make_node(int n) { return malloc(200 + n); }
NOINLINE static void *of_pair(int n) { return malloc(300 + n); }
NOINLINE void *make_pair(int n) { return of_pair(2 * n); }
NOINLINE void *make_item(int n) { char *p = malloc(400 + n); p[0] = 1; return p; }
NOINLINE void *my_alloc(int n) { void *p = malloc(500 + n); return p ? p : emergency(); }
NOINLINE void *xmalloc(int n) { return malloc(700 + n); }
NOINLINE void add_nodes(int n) { for (int i = 0; i < 1000; i++) all[i] = make_node(n); }
NOINLINE void add_pairs(int n) { for (int i = 0; i < 1000; i++) all[1000 + i] = make_pair(n); }
NOINLINE void add_items(int n) { for (int i = 0; i < 1000; i++) all[2000 + i] = make_item(n); }
NOINLINE void add_plain(int n) { for (int i = 0; i < 1000; i++) all[3000 + i] = malloc(600 + n); }
NOINLINE void add_looked(int n) { for (int i = 0; i < 1000; i++) all[4000 + i] = my_alloc(n); }
NOINLINE void add_known(int n) { for (int i = 0; i < 1000; i++) all[5000 + i] = xmalloc(n); }
int main(int argc, char **argv) {
    (void)argv;
    add_nodes(argc); add_pairs(argc); add_items(argc); add_plain(argc); add_looked(argc);
    add_known(argc);
    puts("ready"); fflush(stdout); pause();
}
"#;

#[test]
fn a_function_that_allocates_by_a_jump_names_the_site() {
    for flags in [&["-fcf-protection=none"][..], &["-fcf-protection"], &["-fno-plt"], &["-no-pie"]]
    {
        let compiler = [&["gcc", "-g", "-O2"], flags].concat();
        let program = built(TAIL_CALLS, "tail.c", &compiler);
        let target = start(&[("TOFT_WRAPPERS", "my_alloc")], &program);
        let table = heap(&target, &[]);
        for named in ["make_node at tail.c:8", "make_pair at tail.c:10", "make_item at tail.c:11"] {
            line(&table, named);
        }
        for caller in ["add_plain", "add_looked", "add_known"] {
            line(&table, &format!("{caller} at tail.c:"));
        }
        for other in ["add_nodes", "add_pairs", "add_items", "my_alloc", "of_pair"] {
            assert!(!table.contains(other), "{other}: {table}");
        }
        // The caller follows. Functions of libraries are left to the label.
        let full = heap(&target, &["--full"]);
        assert!(!full.contains("xmalloc"), "{full}");
        let (_, after) = full.split_once("< make_node at tail.c:8").unwrap();
        assert!(after.trim_start().starts_with("< add_nodes at tail.c:"), "{full}");
    }
}

/// In Rust the jump leads into the library, which `toft run` looks through.
const RUST_TAIL_CALLS: &str = r#"
#[inline(never)]
pub fn reserve_room(buffer: &mut Vec<u8>, n: usize) { buffer.reserve(n) }
#[inline(never)]
pub fn copy(text: &str) -> String { let mut copy = String::from(text); copy.push('x'); copy }
#[inline(never)]
fn add_rooms(all: &mut Vec<Vec<u8>>) {
    for _ in 0..1000 { let mut room = Vec::new(); reserve_room(&mut room, 300); all.push(room); }
}
#[inline(never)]
fn add_copies(all: &mut Vec<String>) {
    let text = "y".repeat(700);
    for _ in 0..1000 { all.push(copy(&text)); }
}
fn main() {
    let (mut rooms, mut copies) = (Vec::with_capacity(1000), Vec::with_capacity(1000));
    add_rooms(&mut rooms);
    add_copies(&mut copies);
    std::mem::forget((rooms, copies));
}
"#;

#[test]
fn a_function_of_rust_that_allocates_by_a_jump_names_the_site() {
    let program = built(RUST_TAIL_CALLS, "program.rs", &RUSTC);
    let [table, _] = tables(&program);
    line(&table, "program::reserve_room at program.rs:3");
    line(&table, "program::copy at program.rs:5");
    assert!(!table.contains("add_rooms"), "{table}");
}

/// The value of the first `TOFT_WRAPPERS=` in a note, with the variable.
#[track_caller]
fn remedy(table: &str) -> &str {
    let note = line(table, "come from functions of libraries");
    let at = note.find("TOFT_WRAPPERS=").unwrap_or_else(|| panic!("{note}"));
    note[at..].split([' ', '.']).next().unwrap()
}

/// The variable that a note prints makes call sites of a program's functions, by `toft run` and
/// with LD_PRELOAD, whichever the note is about.
#[track_caller]
fn the_printed_variable_names(program: &Path, function: &str) {
    let [_, shared] = tables(program);
    assert!(line(&shared, "come from").contains("toft run --env TOFT_WRAPPERS="), "{shared}");
    let directory = directory();
    let profile = directory.path().join("profile.toft");
    let to = format!("TOFT_PROFILE={}", text(&profile));
    ends_with(0, run(&["--env", remedy(&shared), "--env", &to], &[text(program)]));
    let table = stdout(&succeeds(&["report", text(&profile)]));
    assert!(!shared.contains(function) && table.contains(function), "{shared}{table}");

    let preloaded = |variable: (&str, &str)| {
        let mut command = Command::new(program);
        let library = library();
        let variables = [("LD_PRELOAD", text(&library)), ("TOFT_PROFILE", text(&profile))];
        tool(command.envs(variables).env(variable.0, variable.1));
        stdout(&succeeds(&["report", text(&profile)]))
    };
    assert!(!preloaded(("TOFT_PARTITIONS", "exact")).contains(function));
    let table = preloaded(remedy(&shared).split_once('=').unwrap());
    assert!(table.contains(function), "{table}");
}

#[test]
fn the_printed_remedy_shows_the_functions_of_the_program() {
    let source = RUST.replace("std::thread::park();", "").replace("drop(", "std::mem::forget(");
    let program = built(&source, "program.rs", &RUSTC);
    the_printed_variable_names(&program, "program::read_names at program.rs:");
    let source = CPP.replace("pause();", "new auto(std::move(names)); new auto(std::move(lines));");
    let program = built(&source, "program.cc", &["g++", "-g", "-O0"]);
    the_printed_variable_names(&program, "read_names at program.cc:");
    let program = built(WRAPPED, "program.c", &["gcc", "-g", "-O1"]);
    the_printed_variable_names(&program, "read_names at program.c:");
}

#[test]
fn a_process_that_was_preloaded_is_told_of_variables() {
    let program = built(CPP, "program.cc", &["g++", "-g", "-O0"]);
    let table = heap(&start(&[], &program), &[]);
    let note = line(&table, "come from functions of libraries");
    assert!(note.contains("the variables TOFT_SAMPLE=512k show"), "{note}");
    assert!(!note.contains("toft run"), "{note}");
    assert!(remedy(&table).starts_with("TOFT_WRAPPERS=c++"), "{note}");
    let (name, value) = remedy(&table).split_once('=').unwrap();
    line(&heap(&start(&[(name, value)], &program), &[]), "read_names at program.cc:");
    // Other names were given, and do not suffice.
    let table = heap(&start(&[(name, "my_alloc")], &program), &[]);
    let advice =
        "TOFT_WRAPPERS=NAME,... with the names of these functions makes call sites of them";
    assert!(line(&table, "come from functions of libraries").contains(advice), "{table}");
}

/// The sampled stacks of a program that `toft run --sample` starts: for each call the functions at
/// it, innermost first.
fn sampled_stacks(program: &Path) -> Vec<Vec<Vec<String>>> {
    let directory = directory();
    let profile = directory.path().join("profile.toft");
    ends_with(0, run(&["--sample", "4k", "--profile", text(&profile)], &[text(program)]));
    let report = object(&["report", "--json", text(&profile)]);
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let name = |frame: &Value| frame["function"].as_str().unwrap().to_owned();
    let call = |call: &Value| array(&call["frames"]).iter().map(name).collect();
    let stack = |stack: &Value| array(&stack["calls"]).iter().map(call).collect();
    array(&report["sampled"]["stacks"]).iter().map(stack).collect()
}

/// A stack begins with the call site above the wrappers, and goes on with its callers. What the
/// site calls is not among these.
#[track_caller]
fn callers_are_above_the_site(program: &Path, callees: &[&str], whole: bool) {
    let stacks = sampled_stacks(program);
    for own in ["read_names", "read_lines"] {
        let is_own = |call: &Vec<String>| call.iter().any(|name| name.contains(own));
        let of_site = stacks.iter().filter(|stack| is_own(&stack[0]));
        assert!(of_site.clone().count() > 0, "{own}: {stacks:#?}");
        let is_main = |call: &Vec<String>| call.iter().any(|name| name.ends_with("main"));
        let has_main = |stack: &Vec<Vec<String>>| stack.get(1).is_some_and(is_main);
        assert!(!whole || of_site.clone().all(has_main), "{own}: {stacks:#?}");
    }
    for stack in &stacks {
        let is_callee = |name: &String| callees.iter().any(|callee| name.contains(callee));
        assert!(!stack[1..].iter().flatten().any(is_callee), "{stack:#?}");
    }
}

#[test]
fn a_sampled_stack_of_rust_has_no_callee_of_its_site() {
    let own = "std::mem::forget((names, lines));";
    let source = RUST.replace("std::thread::park();", "").replace("drop((names, lines));", own);
    let callees = ["alloc::", "fmt::", "read_names", "read_lines"];
    for (flags, whole) in [
        (&["-O", "-Cforce-frame-pointers=yes"][..], false),
        (&["-O"], false),
        (&["-Cforce-frame-pointers=yes"], true),
        (&[], false),
    ] {
        let rust = [&["rustc", "-g", "--edition", "2021"], flags].concat();
        let program = built(&source, "program.rs", &rust);
        callers_are_above_the_site(&program, &callees, whole);
    }
}

#[test]
fn a_sampled_stack_of_cxx_has_no_callee_of_its_site() {
    let keep = "new auto(std::move(names)); new auto(std::move(lines));";
    let source = CPP.replace("pause();", keep);
    for (flags, whole) in [(&["-O0"][..], true), (&["-O2", "-fno-omit-frame-pointer"], true)] {
        let program = built(&source, "program.cc", &[&["g++", "-g"], flags].concat());
        let callees = ["std::", "__gnu_cxx::", "read_names", "read_lines"];
        callers_are_above_the_site(&program, &callees, whole);
    }
}

#[test]
fn profiles_for_other_programs_begin_with_the_function_of_the_program() {
    let directory = directory();
    let program = built(CPP, "program.cc", &["g++", "-g", "-O2"]);
    let running = start(&[("TOFT_SAMPLE", "4k")], &program);
    let file = |name: &str, options: &[&str]| {
        let file = directory.path().join(name);
        heap(&running, &[&["-o", text(&file)], options].concat());
        file
    };
    for view in [&[][..], &["--stacks"]] {
        let top = pprof_top("-unit=B", text(&file("heap.pb.gz", view)));
        let leaves = top.lines().skip_while(|line| !line.trim_start().starts_with("flat")).skip(1);
        let is_leaf = |line: &&str| !line.trim_start().starts_with("0 ");
        let leaves: Vec<&str> = leaves.filter(is_leaf).collect();
        let own = ["keep_numbers", "read_names", "read_lines", "main"];
        let is_own = |line: &&str| own.iter().any(|name| line.contains(name));
        assert!(leaves.len() >= 3 && leaves[..2].iter().all(is_own), "{view:?}: {top}");
        let folded = std::fs::read_to_string(file("heap.folded", view)).unwrap();
        let of_own = |line: &&str| is_own(&line.rsplit(';').next().unwrap());
        assert!(folded.lines().filter(of_own).count() >= 3, "{folded}");
        let inside = |text: &str| text.contains("_M_allocate");
        let svg = std::fs::read_to_string(file("heap.svg", view)).unwrap();
        assert!(!inside(&top) && !inside(&folded) && !inside(&svg), "{top}{folded}");

        let full = [view, &["--full"]].concat();
        for name in ["heap.folded", "heap.svg"] {
            assert!(inside(&std::fs::read_to_string(file(name, &full)).unwrap()), "{name}");
        }
        assert!(inside(&pprof_top("-unit=B", text(&file("heap.pb.gz", &full)))));
    }
}

/// Allocates by a function that is known by name, or by the same under another name. Prints what
/// `toft run` has set.
const WRAPPED: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) void *xmalloc(size_t size) { void *p = malloc(size); if (!p) abort(); return p; }
static void *kept[2][1000];
__attribute__((noinline)) void read_names(void) { for (int i = 0; i < 1000; i++) kept[0][i] = xmalloc(300); }
__attribute__((noinline)) void read_lines(void) { for (int i = 0; i < 1000; i++) kept[1][i] = xmalloc(300); }
int main(void) {
    read_names(); read_lines();
    // Toft takes its variables from the environment.
    static char all[1 << 16];
    FILE *start = fopen("/proc/self/environ", "r");
    size_t length = fread(all, 1, sizeof all - 1, start);
    for (char *at = all; at < all + length; at += strlen(at) + 1)
        if (!strncmp(at, "TOFT_WRAPPERS=", 14)) return puts(at + 14), 0;
    puts("none");
}
"#;

#[test]
fn a_c_program_that_is_run_shows_the_callers_of_its_known_wrapper() {
    let program = built(WRAPPED, "program.c", &["gcc", "-g", "-O1"]);
    let [names, lines] = ["read_names", "read_lines"].map(|f| format!("{f} at program.c:"));
    shows_its_own_functions(&program, &names, &lines, "xmalloc");
    let set = |program: &Path, options: &[&str]| {
        stdout(&ends_with(0, run(options, &[text(program)]))).trim().to_owned()
    };
    assert_eq!(set(&program, &[]), "c");
    assert_eq!(set(&program, &["--env", "TOFT_PARTITIONS=64"]), "none");
    assert_eq!(set(&program, &["--secure"]), "none");
    // Names of the user come beside them, and stay alone if there is no room.
    assert_eq!(set(&program, &["--env", "TOFT_WRAPPERS=my_alloc"]), "my_alloc,c");
    assert_eq!(set(&program, &["--env", "TOFT_WRAPPERS=c,my_alloc"]), "c,my_alloc");
    let long = "f".repeat(254);
    assert_eq!(set(&program, &["--env", &format!("TOFT_WRAPPERS={long}")]), long);
    // A program without such a name keeps its 64 partitions, unless the interpreter in a library
    // has one.
    let source = WRAPPED.replace("xmalloc", "get_memory");
    let program = built(&source, "program.c", &["gcc", "-g", "-O1"]);
    assert_eq!(set(&program, &[]), "none");
    assert_eq!(set(&program, &["--python"]), "c");
}

/// A program that keeps 1000 blocks, and 100 of them until it ends with an argument. With two
/// arguments it frees one of them twice.
const KEEPS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *volatile kept[1000];
__attribute__((noinline)) void keep_some(void) { for (int i = 0; i < 1000; i++) kept[i] = malloc(300); }
__attribute__((noinline)) void drop_twice(void) { free(kept[0]); free(kept[0]); kept[0] = NULL; }
int main(int argc, char **argv) {
    (void)argv;
    keep_some();
    puts("ready"); fflush(stdout);
    if (argc == 1) pause();
    if (argc == 3) drop_twice();
    for (int i = 0; i < 900; i++) kept[i] = NULL;
}
"#;

/// Debian's `redis-server` is a link to `redis-check-rdb`.
#[test]
fn a_program_that_a_link_leads_to_has_the_link_s_name() {
    // Without lines, so that the label has the file.
    let program = built(KEEPS, "program.c", &["gcc", "-O1"]);
    let link = program.with_file_name("server");
    std::os::unix::fs::symlink(&*program, &link).unwrap();
    let directory = directory();
    let saved = directory.path().join("heap.toft");
    for (file, name, other) in
        [(link.as_path(), "server", "program"), (&*program, "program", "server")]
    {
        let target = start(&[], file);
        succeeds(&["heap", &target.pid, "-o", text(&saved)]);
        let at_exit = directory.path().join("exit.txt");
        let options = ["--leaks", "--stats", "--profile", text(&at_exit)];
        let ended = stderr(&ends_with(123, run(&options, &[text(file), "ends"])));
        let at_exit_saved = directory.path().join("exit.toft");
        ends_with(0, run(&["--profile", text(&at_exit_saved)], &[text(file), "ends"]));
        let (stats, leaks) = ended.split_once(" leaked in ").unwrap();
        for view in [
            heap(&target, &[]),
            heap(&target, &["--full"]),
            stdout(&succeeds(&["report", text(&saved)])),
            stdout(&succeeds(&["report", "--full", text(&at_exit_saved)])),
            std::fs::read_to_string(&at_exit).unwrap(),
            stats.to_owned(),
            leaks.to_owned(),
        ] {
            assert!(view.contains(&format!("keep_some in {name}")), "{view}");
            assert!(!view.contains(&format!("keep_some in {other}")), "{view}");
        }
        let folded = heap(&target, &["--format", "folded"]);
        assert!(folded.contains(&format!("{name};keep_some")), "{folded}");
        // Reports as text and as JSON, of a process that has ended.
        for (words, function) in [(&["ends", "twice"][..], "drop_twice"), (&["ends"], "keep_some")]
        {
            let [log, json] = ["log", "json"].map(|form| directory.path().join(form));
            let _ = std::fs::remove_file(&json);
            let mut program = Command::new(file);
            program.args(words).env("LD_PRELOAD", library()).env("TOFT_LEAKS", "1");
            program.env("TOFT_REPORT", format!("full,{}", text(&json)));
            std::fs::write(&log, program.output().unwrap().stderr).unwrap();
            for form in [log, json] {
                let view = stdout(&succeeds(&["explain", text(&form)]));
                assert!(view.contains(&format!("{function} in {name}\n")), "{view}");
                assert!(!view.contains(&format!("{function} in {other}")), "{view}");
                assert_eq!(view.contains(" (server), thread "), name == "server", "{view}");
            }
        }
    }
}

/// The C library allocates in a function without a symbol, for two functions of the program.
const THROUGH_LIBC: &str = r#"
#include <dirent.h>
#include <stdlib.h>
static DIR *kept[2][20];
__attribute__((noinline)) void *xmalloc(size_t size) { void *p = malloc(size); if (!p) abort(); return p; }
__attribute__((noinline)) void read_names(void) { for (int i = 0; i < 20; i++) kept[0][i] = opendir("/"); }
__attribute__((noinline)) void read_lines(void) { for (int i = 0; i < 20; i++) kept[1][i] = opendir("/"); }
int main(void) { read_names(); read_lines(); return xmalloc(100) == NULL; }
"#;

#[test]
fn what_the_c_library_allocates_is_of_the_function_that_called_it() {
    let program = built(THROUGH_LIBC, "program.c", &["gcc", "-g", "-O1"]);
    let [names, lines] = ["read_names", "read_lines"].map(|f| format!("{f} at program.c:"));
    let [own, shared] = tables(&program);
    assert!(own.contains(&names) && own.contains(&lines), "{own}");
    assert!(!shared.contains(&names) && !shared.contains(&lines), "{shared}");
}

/// Calls malloc from a page of machine code, which it has written, and names it as a language
/// runtime does.
const GENERATED: &str = include_str!("programs/labels-generated.c");

#[test]
fn generated_code_is_named_by_the_map_of_its_runtime() {
    let program = compiled("program", GENERATED, &[]);
    let running = start(&[], &program);
    let table = heap(&running, &[]);
    let map = format!("/tmp/perf-{}.map", running.pid);
    assert!(line(&table, "handle at app.js:3").contains("1 000"), "{table}");
    std::fs::remove_file(map).unwrap();
    let table = heap(&running, &[]);
    assert!(!table.contains("handle"), "{table}");
}

/// Keeps blocks of a token, which is no place in code, and others.
const TOKENS: &str = include_str!("programs/labels-tokens.c");

#[test]
fn a_token_of_the_program_is_named_as_one() {
    let program = compiled("program", TOKENS, &[]);
    let table = heap(&start(&[], &program), &[]);
    assert!(line(&table, "token 17").contains("1 000"), "{table}");
    assert!(line(&table, "main at program.c").contains("1 000"), "{table}");
    assert_eq!(table.matches("token").count(), 1, "{table}");
}

/// Keeps blocks of one function, which only debug information names once the program is stripped.
const KEEPER: &str = include_str!("programs/labels-keeper.c");

/// A stripped program, and its debug information in a file.
fn stripped(directory: &Path, debug: &Path) -> PathBuf {
    let program = compile(directory, "keeper", KEEPER, &[]);
    tool(Command::new("objcopy").arg("--only-keep-debug").arg(&program).arg(debug));
    tool(Command::new("strip").arg(&program));
    program
}

#[test]
fn debug_information_is_found_by_the_link_to_it() {
    let directory = directory();
    let debug = directory.path().join("keeper.debug");
    let program = stripped(directory.path(), &debug);
    let running = start(&[], &program);
    assert!(!heap(&running, &[]).contains("keep_blocks"), "it has no name yet");
    drop(running);
    let link = format!("--add-gnu-debuglink={}", text(&debug));
    tool(Command::new("objcopy").arg(link).arg(&program));
    let running = start(&[], &program);
    line(&heap(&running, &[]), "keep_blocks at keeper.c:5");
    // Another file of that name says nothing.
    std::fs::OpenOptions::new().append(true).open(&debug).unwrap().write_all(b"x").unwrap();
    assert!(!heap(&running, &[]).contains("keep_blocks"));
}

/// Fedora's programs have the names of their functions in a compressed section.
#[test]
fn names_in_a_compressed_section_are_read() {
    let directory = directory();
    let program = compile(directory.path(), "keeper", KEEPER, &[]);
    let symbols = directory.path().join("symbols");
    std::fs::copy(&program, &symbols).unwrap();
    tool(Command::new("strip").arg("--strip-debug").arg(&symbols));
    tool(Command::new("strip").arg(&program));
    tool(Command::new("xz").arg(&symbols));
    let section = format!(".gnu_debugdata={}.xz", text(&symbols));
    let running = start(&[], &program);
    let note = format!("1 call site is in a function without a symbol, in {}: ", text(&program));
    assert_contains(&heap(&running, &[]), &["keeper+0x", &note]);
    drop(running);
    tool(Command::new("objcopy").arg("--add-section").arg(section).arg(&program));
    let running = start(&[], &program);
    let table = heap(&running, &[]);
    line(&table, "keep_blocks in keeper");
    assert!(!table.contains("without a symbol"), "{table}");
}

/// The process still has its file, and the new one at its path says nothing of it.
#[test]
fn a_program_whose_file_was_replaced_or_deleted_is_named() {
    let directory = directory();
    for flags in [&[][..], &["-Wl,--build-id=none"]] {
        let program = compile(directory.path(), "keeper", KEEPER, flags);
        let running = start(&[], &program);
        let other =
            KEEPER.replace("keep_blocks", "another_name").replace("int main", "\n\nint main");
        let other = compile(directory.path(), "other", &other, flags);
        std::fs::rename(other, &program).unwrap();
        let table = heap(&running, &[]);
        line(&table, "keep_blocks at keeper.c:5");
        assert!(!table.contains("not here"), "{table}");
        std::fs::remove_file(&program).unwrap();
        line(&heap(&running, &[]), "keep_blocks at keeper.c:5");
        // From a profile that outlives the process it cannot be read.
        let file = directory.path().join("heap.toft");
        heap(&running, &["-o", text(&file)]);
        drop(running);
        line(&stdout(&succeeds(&["report", text(&file)])), "not here, or rebuilt since");
    }
}

/// Two processes have the same path for two programs, because one has other mounts.
#[test]
fn names_are_from_the_file_that_the_process_sees() {
    let directory = directory();
    let folder = |name: &str| {
        let folder = directory.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        folder
    };
    let (seen, hidden) = (folder("seen"), folder("hidden"));
    let program = compile(&seen, "keeper", KEEPER, &[]);
    compile(&hidden, "keeper", &KEEPER.replace("keep_blocks", "hide_blocks"), &[]);
    let mount = || {
        let mut command = Command::new("unshare");
        command.args(["-m", "mount", "--bind"]).args([&hidden, &seen]);
        command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    if !mount() {
        eprintln!("left out: no namespace of mounts can be made here");
        return;
    }
    let script =
        format!("mount --bind {} {} && exec {}", text(&hidden), text(&seen), text(&program));
    let inside = Target::of(Command::new("unshare").args(["-m", "sh", "-c", &script]));
    let outside = Target::start(&program);
    line(&heap(&outside, &[]), "keep_blocks at keeper.c:5");
    line(&heap(&inside, &[]), "hide_blocks at keeper.c:5");
    for pids in [[&inside.pid, &outside.pid], [&outside.pid, &inside.pid]] {
        let page = prints(&[&["metrics"], &pids.map(String::as_str)[..]].concat());
        for (target, name) in [(&inside, "hide_blocks"), (&outside, "keep_blocks")] {
            let of_process = format!("pid=\"{}\"", target.pid);
            let is_there = |line: &str| line.contains(&of_process) && line.contains(name);
            assert!(page.lines().any(is_there), "{name}: {page}");
        }
    }
}

#[test]
fn debug_information_that_files_share_is_found() {
    let directory = directory();
    let (program, _) = sharing(directory.path());
    let running = start(&[], &program);
    line(&heap(&running, &[]), "keep_blocks at one.c:5");
}

/// A program, and the debug information that it shares with another one.
fn sharing(directory: &Path) -> (PathBuf, PathBuf) {
    let programs = ["one", "two"].map(|name| compile(directory, name, KEEPER, &[]));
    // Without its symbol only debug information names the function.
    for program in &programs {
        tool(Command::new("objcopy").arg("--strip-symbol=keep_blocks").arg(program));
    }
    let shared = directory.join("shared.debug");
    tool(Command::new("dwz").arg("-m").arg(&shared).args(&programs));
    assert!(shared.is_file());
    let [program, _] = programs;
    (program, shared)
}

/// Split debug information is in a file for each object, or in one package beside the program.
#[test]
fn debug_information_that_is_split_is_found() {
    let directory = directory();
    // The packager of binutils 2.40 crashes on the fifth version.
    let program = compile(directory.path(), "keeper", KEEPER, &["-gdwarf-4", "-gsplit-dwarf"]);
    tool(Command::new("objcopy").arg("--strip-symbol=keep_blocks").arg(&program));
    let split = |folder: &Path| -> Vec<PathBuf> {
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|ending| ending == "dwo")).collect()
    };
    let objects = split(directory.path());
    assert_eq!(objects.len(), 1, "{objects:?}");
    let named = || heap(&start(&[], &program), &[]);
    line(&named(), "keep_blocks at keeper.c:5");
    let package = directory.path().join("keeper.dwp");
    tool(Command::new("dwp").arg("-e").arg(&program).arg("-o").arg(&package));
    std::fs::remove_file(&objects[0]).unwrap();
    line(&named(), "keep_blocks at keeper.c:5");
    std::fs::remove_file(&package).unwrap();
    assert!(!named().contains("keep_blocks"), "neither is there");

    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let program = compile(directory.path(), "symbols", KEEPER, &[version, "-gsplit-dwarf"]);
        let named = || heap(&start(&[], &program), &[]);
        line(&named(), "keep_blocks at symbols.c:5");
        // The program itself has the lines, and the function's symbol.
        split(directory.path()).iter().for_each(|file| std::fs::remove_file(file).unwrap());
        line(&named(), "keep_blocks at symbols.c:5");
    }
}

#[test]
fn a_file_of_any_name_has_its_functions_in_every_view() {
    let program = built(KEEPS, "program.c", &["gcc", "-g", "-O1"]);
    let directory = directory();
    let at_exit = directory.path().join("exit.txt");
    let written = directory.path().join("written");
    let named = "keep_some at program.c:6";
    let names: [&[u8]; 9] = [
        b"plain",
        b"a\"b'c",
        b"a\tb",
        b"a\nb",
        b"a\xffb",
        b"a\\012",
        b"a b ",
        b"\xe9t\xe9\r",
        b"a (deleted)",
    ];
    for name in names {
        let file = directory.path().join(OsStr::from_bytes(name));
        std::fs::copy(&*program, &file).unwrap();
        let mut views = vec![heap(&start(&[], &file), &[])];
        let options = ["--leaks", "--stats", "--profile", text(&at_exit), "--"];
        let of_toft = |mut command: Command, status| {
            stderr(&ends_with(status, command.arg(&file).arg("ends").output().unwrap()))
        };
        let mut command = toft();
        command.arg("run").args(options);
        let ended = of_toft(command, 123);
        views.extend(ended.split(" leaked in ").map(str::to_owned));
        views.push(std::fs::read_to_string(&at_exit).unwrap());
        let _ = std::fs::remove_file(&written);
        let preload = [("LD_PRELOAD", library()), ("TOFT_REPORT", written.clone())];
        let mut command = Command::new(&file);
        command.arg("ends").envs(preload).env("TOFT_LEAKS", "1");
        let lines = command.output().unwrap().stderr;
        let spoken = directory.path().join("spoken");
        std::fs::write(&spoken, lines).unwrap();
        views.extend([&spoken, &written].map(|file| stdout(&succeeds(&["explain", text(file)]))));
        assert_eq!(views.len(), 6, "{ended}");
        for view in views {
            assert!(view.contains(named), "{file:?}: {view}");
        }
    }
}

#[test]
fn debug_information_is_fetched_from_a_server_that_is_named() {
    let directory = directory();
    let files = directory.path().join("files");
    std::fs::create_dir(&files).unwrap();
    let program = stripped(directory.path(), &files.join("keeper.debug"));
    let (_server, url) = serve(&files, &build_id(&program));
    let running = start(&[], &program);
    let cache = directory.path().join("cache");
    let variables = [("DEBUGINFOD_URLS", url.as_str()), ("DEBUGINFOD_CACHE_PATH", text(&cache))];
    assert!(!heap(&running, &[]).contains("keep_blocks"), "no server is asked unless it is named");
    line(&heap_with(&running, &variables, &[]), "keep_blocks at keeper.c:5");
}

fn build_id(file: &Path) -> String {
    let notes = tool(Command::new("readelf").arg("-n").arg(file).env("LC_ALL", "C"));
    notes.split("Build ID: ").nth(1).unwrap().lines().next().unwrap().to_owned()
}

/// Starts a server of debug information, which has found the file with that build-id in a folder.
/// Returns its address as well.
fn serve(files: &Path, id: &str) -> (Running, String) {
    let port = port();
    let mut server = Command::new("debuginfod");
    server.args(["-d", ":memory:", "-p", &port.to_string(), "-F"]).arg(files);
    let server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let server = Running(server.expect("the tests need debuginfod"));
    // It has to find the file first.
    let has_it = || {
        let mut peer = TcpStream::connect(("127.0.0.1", port)).ok()?;
        let question = format!("GET /buildid/{id}/debuginfo HTTP/1.0\r\n\r\n");
        peer.write_all(question.as_bytes()).ok()?;
        let mut answer = Vec::new();
        peer.read_to_end(&mut answer).ok()?;
        answer.windows(7).take(20).any(|bytes| bytes == b" 200 OK").then_some(())
    };
    until("the server finds the file", has_it);
    (server, format!("http://127.0.0.1:{port}"))
}

#[test]
fn debug_information_that_files_share_is_fetched_from_a_server() {
    let directory = directory();
    let files = directory.path().join("files");
    std::fs::create_dir(&files).unwrap();
    let (program, shared) = sharing(directory.path());
    let served = files.join("shared.debug");
    std::fs::rename(shared, &served).unwrap();
    let (_server, url) = serve(&files, &build_id(&served));
    let running = start(&[], &program);
    let cache = directory.path().join("cache");
    let variables = [("DEBUGINFOD_URLS", url.as_str()), ("DEBUGINFOD_CACHE_PATH", text(&cache))];
    assert!(!heap(&running, &[]).contains("keep_blocks"), "no server is asked unless it is named");
    line(&heap_with(&running, &variables, &[]), "keep_blocks at one.c:5");
}

/// The folder is searched by the build-id of the file that ran, whatever the file is called there.
#[test]
fn debug_information_is_found_in_a_folder_by_build_id() {
    let directory = directory();
    let debug = directory.path().join("some.debug");
    let program = stripped(directory.path(), &debug);
    let id = build_id(&program);
    let folder = directory.path().join("symbols");
    let of_id = folder.join(".build-id").join(&id[..2]);
    std::fs::create_dir_all(&of_id).unwrap();
    let place = of_id.join(format!("{}.debug", &id[2..]));
    std::fs::rename(debug, &place).unwrap();
    let running = start(&[], &program);
    assert!(!heap(&running, &[]).contains("keep_blocks"), "the folder is not named");
    line(&heap(&running, &["--symbols", text(&folder)]), "keep_blocks at keeper.c:5");
    // That of another build-id is not taken.
    std::fs::rename(&place, of_id.join("0123.debug")).unwrap();
    assert!(!heap(&running, &["--symbols", text(&folder)]).contains("keep_blocks"));
}

#[test]
fn lines_of_a_stack_are_short_unless_all_is_asked_for() {
    let program = built(CPP, "program.cc", &["g++", "-g", "-O0"]);
    let running = start(&[("TOFT_SAMPLE", "4k")], &program);
    let stacks = |options: &[&str]| {
        heap(&running, options).split_once("\nsampled stacks: ").unwrap().1.to_owned()
    };
    let (short, full) = (stacks(&[]), stacks(&["--full"]));
    // A run of functions of libraries is one line, without arguments that are the default.
    let called = line(&short, " more of libraries");
    assert!(called.contains(" > std::vector<"), "{short}");
    assert!(!short.contains("std::allocator<"), "{short}");
    assert!(full.contains("std::allocator<") && !full.contains(" more of libraries"), "{full}");
    assert!(full.lines().count() > short.lines().count() + 5, "{short}{full}");
}

#[test]
fn statistics_have_the_label_of_the_heap() {
    let directory = directory();
    let program = built(CPP, "program.cc", &["g++", "-g", "-O0"]);
    let running = start(&[], &program);
    let profile: Value = serde_json::from_str(&heap(&running, &["--json"])).unwrap();
    drop(running);
    let source = CPP.replace("pause();", "");
    let program = built(&source, "program.cc", &["g++", "-g", "-O0"]);
    let output = directory.path().join("stats.json");
    let own = ["--env", "TOFT_PARTITIONS=exact"];
    let options = [&own[..], &["--stats", "--json", "--output", text(&output)]].concat();
    ends_with(0, run(&options, &[text(&program)]));
    let stats: Value = serde_json::from_slice(&std::fs::read(&output).unwrap()).unwrap();
    let sites = stats.to_string();
    let rows = profile["rows"].as_array().unwrap();
    let labels = rows.iter().filter_map(|row| row["label"]["function"].as_str());
    let labels: Vec<&str> = labels.filter(|label| label.contains("::")).collect();
    assert!(!labels.is_empty(), "{profile}");
    for label in labels {
        assert!(sites.contains(&format!("\"function\":\"{label}\"")), "{label}: {sites}");
    }
}

/// Two call sites in one line of one function.
#[test]
fn call_sites_with_one_label_share_a_line_in_every_table() {
    let source = include_str!("programs/one-line.c");
    let program = compiled("one-line", source, &["-fno-builtin"]);
    let stats = stderr(&run(&["--stats"], &[text(&program)]));
    let running = Target::start(&program);
    let rss = stdout(&succeeds(&["rss", &running.pid]));
    // Allocated and pinning; pinning.
    for (page, tables) in [(stats, 2), (rss, 1)] {
        let lines: Vec<&str> = page.lines().filter(|line| line.contains("both at")).collect();
        assert_eq!(lines.len(), tables, "{page}");
        let whole = |line: &&str| line.ends_with("  both at one-line.c:5 (2 call sites)");
        assert!(lines.iter().all(whole), "{page}");
    }
    let full = heap(&running, &["--full"]);
    let sites = full.lines().filter(|line| line.contains(" call site one-line+0x"));
    assert_eq!(sites.count(), 2, "{full}");
    assert_eq!(full.matches("< both at one-line.c:5").count(), 2, "{full}");
    assert!(!heap(&running, &[]).contains("call site one-line+"));
}
