//! The programs, as they are on the machine, and what each is asked to do.

use crate::place;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use toft_bench::child::{self, Limits};

/// A program and its work.
pub struct Program {
    /// What the tables call it.
    pub name: &'static str,
    /// Its functions that only hand on what malloc gives them, as its authors call them.
    pub wrappers: &'static str,
    words: Vec<String>,
    environment: Vec<(&'static str, &'static str)>,
    /// The socket of a server, which is given its work from outside.
    socket: Option<PathBuf>,
}

const PYTHON: &str = "import json\n\
    d = [{str(i * j % 997): i for i in range(60)} for j in range(600)]\n\
    for _ in range(3):\n    json.loads(json.dumps(d))\n";
const SQL: &str = "create table t(a, b);\
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000) \
    insert into t select i, hex(randomblob(8)) from n;\
    create index x on t(b); select count(*) from t as u join t as v on u.b = v.b;";
const NODE: &str = "const a = []; for (let i = 0; i < 100000; i++) a.push({k: String(i), v: [i]});\
    for (let k = 0; k < 3; k++) JSON.parse(JSON.stringify(a));";

/// Those that are there, and the names of those that are not.
pub fn all() -> Result<(Vec<Program>, Vec<&'static str>), String> {
    let folder = place::target_dir().join("experiment-sites");
    let source = folder.join("work.c");
    std::fs::write(&source, functions(1500)).map_err(|e| format!("{}: {e}", source.display()))?;
    let source = source.to_string_lossy().into_owned();
    let socket = folder.join("redis");
    let repository = place::root().to_string_lossy().into_owned();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let plain = |name, wrappers, found: Option<String>, arguments: &[&str]| {
        (name, found.map(|program| [vec![program], words(arguments)].concat()), wrappers)
    };
    let rust = "rust,*alloc5alloc*,*alloc..alloc*";
    // What the measured cargo reads must lie here: it is not to wait for a network.
    if !matches!(place::cargo().args(["fetch", "--locked", "--quiet"]).status(), Ok(s) if s.success())
    {
        eprintln!("cargo fetch has failed: the Rust program may lack what it reads");
    }
    let all = [
        plain(
            "python",
            "PyMem_*,_PyMem_*,PyObject_Malloc,PyObject_Calloc,PyObject_Realloc,_PyObject_*,PyType_GenericAlloc,gc_alloc,PyObject_GC_*",
            // What is called python3 may be a script that finds it.
            said(&["python3", "-c", "import sys; print(sys.executable)"]),
            &["-c", PYTHON],
        ),
        plain(
            "gcc (cc1)",
            "xmalloc,xcalloc,xrealloc,xstrdup,xmemdup,*obstack*,*5alloc*",
            said(&["gcc", "-print-prog-name=cc1"]).filter(|path| path.starts_with('/')),
            &["-quiet", "-O1", "-w", &source, "-o", "/dev/null"],
        ),
        plain(
            "git",
            "xmalloc,xcalloc,xrealloc,xstrdup,xmemdupz,strbuf_grow,strdup",
            which("git"),
            &["-C", &repository, "--no-pager", "log", "--stat", "-n", "200"],
        ),
        plain(
            "sqlite",
            "sqlite3_malloc*,sqlite3_realloc*,sqlite3Malloc*,sqlite3Db*",
            which("sqlite3"),
            &[":memory:", SQL],
        ),
        plain(
            "redis",
            "zmalloc*,zcalloc*,zrealloc*,ztrymalloc*,ztrycalloc*,ztryrealloc*,zstrdup",
            which("redis-server").filter(|_| which("redis-benchmark").is_some()),
            &["--port", "0", "--save", "", "--unixsocket", &socket.to_string_lossy()],
        ),
        plain(
            "node",
            "CRYPTO_malloc,CRYPTO_zalloc,CRYPTO_realloc,CRYPTO_memdup,CRYPTO_strdup,uprv_malloc*,uv__malloc,*AllocWithRetry*,*Malloced*",
            which("node"),
            &["-e", NODE],
        ),
        plain(
            "rust (cargo)",
            rust,
            said(&["rustup", "which", "cargo"]).or_else(|| which("cargo")),
            &["metadata", "--format-version", "1", "--offline"],
        ),
    ];
    let mut there = Vec::new();
    let mut missing = Vec::new();
    for (name, words, wrappers) in all {
        let Some(words) = words else {
            eprintln!("{name} is not on this machine");
            missing.push(name);
            continue;
        };
        let environment =
            if name == "python" { vec![("PYTHONMALLOC", "malloc")] } else { Vec::new() };
        let socket = (name == "redis").then(|| socket.clone());
        there.push(Program { name, wrappers, words, environment, socket });
    }
    Ok((there, missing))
}

impl Program {
    /// The program, ready to be started.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).current_dir(place::root());
        command.envs(self.environment.iter().copied()).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Whether it needs no client to give it its work.
    pub fn ends_by_itself(&self) -> bool {
        self.socket.is_none()
    }

    /// Gives a server its work, from another thread, and ends it.
    pub fn drive(&self, _pid: i32) {
        let Some(socket) = self.socket.clone() else { return };
        std::thread::spawn(move || {
            let client = |words: &[&str]| {
                let mut command = Command::new(words[0]);
                command.arg("-s").arg(&socket).args(&words[1..]);
                command.stdout(Stdio::null()).stderr(Stdio::null());
                command.status().is_ok_and(|status| status.success())
            };
            for _ in 0..100 {
                if client(&["redis-cli", "ping"]) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            let work = "set,incr,lpush,rpush,sadd,hset,zadd,mset";
            client(&[
                "redis-benchmark",
                "-q",
                "-n",
                "20000",
                "-r",
                "20000",
                "-d",
                "100",
                "-t",
                work,
            ]);
            client(&["redis-cli", "shutdown", "nosave"]);
        });
    }
}

fn functions(count: usize) -> String {
    (0..count)
        .map(|n| {
            format!(
                "static int f{n}(int a, int b) {{ int s = 0; for (int i = 0; i < a; i++) \
                 {{ s += i * {n}; if (s % 7 == b) s ^= a; }} return s; }}\n\
                 int g{n}(char *p) {{ return f{n}(__builtin_strlen(p), {n}); }}\n"
            )
        })
        .collect()
}

fn which(name: &str) -> Option<String> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|folder| folder.join(name));
    found.into_iter().find(|path| is_program(path)).map(|path| path.to_string_lossy().into_owned())
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// What a command says, in one line; nothing, if it is not there or fails.
fn said(words: &[&str]) -> Option<String> {
    let mut command = Command::new(which(words[0])?);
    command.args(&words[1..]).stdin(Stdio::null());
    let limits = Limits { timeout: Duration::from_secs(20), pin: None };
    let ended = child::run(command, limits).ok()?;
    Some(ended.output.trim().to_owned()).filter(|text| !text.is_empty())
}
