//! `cargo xtask pictures`: the pictures of the README, `toft top` and the page of a heap, made from
//! a program that runs.

mod terminal;

use crate::step::{succeed, text};
use crate::{files, place};
use std::num::NonZeroU16;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use toft_bench::child::Killed;

/// The program that is looked at: it fills a cache, and its sessions come and go.
const PROGRAM: &str = include_str!("pictures/server.c");

const LINES: NonZeroU16 = NonZeroU16::new(14).unwrap();
const COLUMNS: NonZeroU16 = NonZeroU16::new(92).unwrap();

/// What the screen shows when `toft top` has compared two samples of the program.
const SHOWN: &str = "open_session at server.c";

/// The longest wait for that.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes docs/figures/top.svg and docs/figures/heap.png.
pub fn main() -> Result<ExitCode, String> {
    let root = place::root();
    let toft = place::build(&["toft-cli"])?.join("toft");
    let folder = place::target_dir().join("pictures");
    files::write(&folder.join("server.c"), PROGRAM)?;
    let mut cc = Command::new("cc");
    cc.args(["-g", "-O1", "-fno-inline", "-o", "server", "server.c"]).current_dir(&folder);
    succeed(&mut cc)?;
    let server = Command::new(&toft)
        .args(["run", "--", "./server"])
        .current_dir(&folder)
        .spawn()
        .map_err(|e| format!("toft run: {e}"))?;
    let server = Killed(server);
    let pid = server.id();

    await_sessions(&toft, pid)?;

    let figures = root.join("docs/figures");
    let screen = top(&toft, pid)?;
    files::write(&figures.join("top.svg"), terminal::svg(&screen, "toft top"))?;
    println!("docs/figures/top.svg");

    let page = folder.join("heap.html");
    let mut heap = Command::new(&toft);
    heap.args(["heap", &pid.to_string(), "-o"]).arg(&page);
    succeed(&mut heap)?;
    photographed(&page, &figures.join("heap.png"))?;
    println!("docs/figures/heap.png");
    Ok(ExitCode::SUCCESS)
}

/// Waits until the program runs on Toft and has opened its sessions.
fn await_sessions(toft: &Path, pid: u32) -> Result<(), String> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let looked = Command::new(toft).args(["heap", &pid.to_string()]).output();
        let looked = looked.map_err(|error| format!("toft heap: {error}"))?;
        if String::from_utf8_lossy(&looked.stdout).contains(SHOWN) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err("the program does not come to its sessions".into())
}

/// The screen of `toft top` after some scans, in a terminal that `script` makes.
fn top(toft: &Path, pid: u32) -> Result<vt100::Parser, String> {
    let toft = toft.display();
    let words = format!("stty rows {LINES} cols {COLUMNS}; exec {toft} top --count 5 {pid}");
    // An input that has ended would be keys.
    let (keys, _open) = std::io::pipe().map_err(|error| error.to_string())?;
    let mut script = Command::new("script");
    script.args(["-qec", &words, "/dev/null"]).stdin(keys);
    script.env("TERM", "xterm-256color").env("SHELL", "/bin/sh");
    script.env_remove("NO_COLOR").env_remove("COLUMNS");
    let output = text(&mut script).map_err(|why| format!("{why}\nscript is of util-linux"))?;
    // It ends by returning to the screen that was there before.
    let (shown, _) = output.rsplit_once("\x1b[?1049l").unwrap_or((&output, ""));
    let mut parser = vt100::Parser::new(LINES, COLUMNS, 0);
    parser.process(shown.as_bytes());
    let is_there = parser.screen().contents().contains(SHOWN);
    if is_there { Ok(parser) } else { Err("toft top shows no call site".into()) }
}

/// A page as a picture, by headless Chromium.
fn photographed(page: &Path, picture: &Path) -> Result<(), String> {
    let mut chromium = Command::new("chromium");
    chromium
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(["--window-size=1000,420", "--force-color-profile=srgb"])
        .arg(format!("--screenshot={}", picture.display()))
        .arg(format!("file://{}", page.display()))
        .stderr(Stdio::null());
    succeed(&mut chromium)
        .map_err(|why| format!("{why}\nchromium is Debian's package of that name"))
}
