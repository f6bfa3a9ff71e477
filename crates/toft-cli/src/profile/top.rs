//! `toft top`: a process's call sites as they change, in a terminal.

use std::io::{self, IsTerminal};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{BeginSynchronizedUpdate, EndSynchronizedUpdate};
use serde_json::json;
use toft_profile::{Diff, Process, Profile, owners};

use super::diff::object;
use super::heap::of_process;
use super::names::Names;
use super::screen::{Screen, draw};
use crate::verb::{End, SymbolFolders, message, print_while_read};
use crate::watch::Watched;

const HELP: &str = "\
Examples:
  toft top 1234                        update once a second
  toft top --interval 5 1234           update every five seconds
  toft top --json --count 10 1234      print changes as JSON, for ten scans

Keys: up and down select a site, Enter shows its details, Esc returns; s sorts by the next column, r reverses the order;
/ filters sites by name; t shows memory by owner thread; z counts growth from now; space holds the display; ? lists the keys; q quits.

Exit status: 0, also when the process ends meanwhile; 125 if the process cannot be read.";

/// Watch the live memory of a running process, and its growth, by call site.
///
/// Live bytes and blocks are exact, as in `toft heap`, and so is the number of all allocations.
/// alloc/s and calls/s are differences between two scans, and include blocks that lived shorter. No
/// code runs in the process, and it is not stopped.
#[derive(Args, Debug)]
#[command(name = "top", after_help = HELP)]
pub struct Top {
    /// Seconds between two scans
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = crate::verb::seconds)]
    interval: f64,
    /// End after N scans
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Print a JSON object, on one line, for each scan but the first, instead of the display
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    symbols: SymbolFolders,
    /// The process
    #[arg(value_name = "PID", value_parser = crate::verb::pid, allow_negative_numbers = true)]
    pid: i32,
}

pub fn top(args: &Top) -> End {
    let mut scanner = Scanner::of(args);
    // First, so that a process that cannot be read is the message in every case.
    let first = scanner.scan()?;
    let stop = if args.json {
        lines(args, scanner, first)?
    } else if io::stdout().is_terminal() && io::stdin().is_terminal() {
        display(args, scanner, first)?
    } else {
        let pid = args.pid;
        let why =
            format!("a terminal is needed; toft top --json {pid} or toft heap {pid} need none");
        return Err(why.into());
    };
    // The end of a watched process is no failure.
    if let Stop::Ended(why) = stop {
        message(&why);
    }
    Ok(0)
}

/// Why nothing more is shown.
enum Stop {
    /// By a key, by --count, or for want of a reader.
    Asked,
    /// The process has ended; in words.
    Ended(String),
}

/// Scans a process, and names its call sites.
struct Scanner {
    process: Watched,
    names: Names,
}

impl Scanner {
    fn of(args: &Top) -> Scanner {
        Scanner { process: Watched::of(args.pid), names: args.symbols.names_of(args.pid) }
    }

    /// Scans again; `None` if the process has ended since the first scan. Another process may have
    /// its number then.
    fn scan_again(&mut self) -> Result<Option<Profile>, String> {
        let scanned = self.scan();
        if self.process.has_ended() { Ok(None) } else { scanned.map(Some) }
    }

    fn ended(&self) -> Stop {
        Stop::Ended(self.process.ended())
    }

    fn scan(&mut self) -> Result<Profile, String> {
        let mut profile = of_process(self.process.pid()).map_err(|error| error.to_string())?;
        self.names.give(&mut profile);
        Ok(profile)
    }
}

fn lines(args: &Top, mut scanner: Scanner, mut before: Profile) -> Result<Stop, String> {
    let mut then = Instant::now();
    let mut left = args.count.unwrap_or(u64::MAX).saturating_sub(1);
    while left > 0 {
        sleep(Duration::from_secs_f64(args.interval));
        let Some(now) = scanner.scan_again()? else { return Ok(scanner.ended()) };
        let seconds = then.elapsed().as_secs_f64();
        then = Instant::now();
        let diff = Diff { seconds: Some(seconds), ..Diff::of(&before, &now) };
        let mut line = object(&diff, false);
        if let Some(line) = line.as_object_mut() {
            line.remove("failed");
            line.insert("time".into(), json!(now.time));
            line.insert("seconds".into(), json!(seconds));
            line.insert("bytes".into(), json!(now.bytes));
            line.insert("objects".into(), json!(now.objects));
            line.insert("resident".into(), json!(now.resident));
        }
        if !print_while_read(format!("{line}\n"))? {
            return Ok(Stop::Asked);
        }
        before = now;
        left -= 1;
    }
    Ok(Stop::Asked)
}

fn display(args: &Top, mut scanner: Scanner, first: Profile) -> Result<Stop, String> {
    let mut screen = Screen::new(first, threads(args.pid));
    let mut terminal = ratatui::try_init().map_err(|error| error.to_string())?;
    let ended = watch(args, &mut scanner, &mut screen, &mut terminal);
    ratatui::restore();
    ended
}

fn watch(
    args: &Top,
    scanner: &mut Scanner,
    screen: &mut Screen,
    terminal: &mut ratatui::DefaultTerminal,
) -> Result<Stop, String> {
    let failed = |error: io::Error| error.to_string();
    let interval = Duration::from_secs_f64(args.interval);
    let mut scanned = Instant::now();
    let mut next = scanned + interval;
    let mut left = args.count.unwrap_or(u64::MAX);
    loop {
        // A terminal that knows these marks shows no half of a picture.
        execute!(io::stdout(), BeginSynchronizedUpdate).map_err(failed)?;
        terminal.draw(|frame| draw(frame, screen)).map_err(failed)?;
        execute!(io::stdout(), EndSynchronizedUpdate).map_err(failed)?;
        let timeout = next.saturating_duration_since(Instant::now());
        if event::poll(timeout).map_err(failed)? {
            if let Event::Key(key) = event::read().map_err(failed)?
                && key.kind == KeyEventKind::Press
            {
                if !pressed(screen, key) {
                    return Ok(Stop::Asked);
                }
                if key.code == KeyCode::Char('t')
                    && let Err(why) = scan_threads(args.pid, screen)
                {
                    return if scanner.process.has_ended() {
                        Ok(scanner.ended())
                    } else {
                        Err(why)
                    };
                }
            }
            continue;
        }
        next = Instant::now() + interval;
        left -= 1;
        if left == 0 {
            return Ok(Stop::Asked);
        }
        if !screen.is_paused() {
            let Some(now) = scanner.scan_again()? else { return Ok(scanner.ended()) };
            let seconds = scanned.elapsed().as_secs_f64();
            scanned = Instant::now();
            screen.show(now, threads(args.pid), seconds);
            if let Err(why) = scan_threads(args.pid, screen) {
                return if scanner.process.has_ended() { Ok(scanner.ended()) } else { Err(why) };
            }
        }
    }
}

/// Which thread owns what, where that is shown.
fn scan_threads(pid: i32, screen: &mut Screen) -> Result<(), String> {
    if screen.shows_threads() {
        let owners = Process::open(pid).and_then(|process| owners(&process));
        screen.show_owners(owners.map_err(|error| error.to_string())?);
    }
    Ok(())
}

fn threads(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// Does what a key asks for; returns true if `top` goes on.
fn pressed(screen: &mut Screen, key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if control => return false,
        code if screen.is_typing() => match code {
            KeyCode::Enter => screen.finish_typing(true),
            KeyCode::Esc => screen.finish_typing(false),
            KeyCode::Backspace => screen.delete_letter(),
            KeyCode::Char(letter) => screen.type_letter(letter),
            _ => {}
        },
        KeyCode::Char('q') => return false,
        KeyCode::Char('?') => screen.toggle_help(),
        KeyCode::Esc | KeyCode::Left if screen.shows_help() => screen.toggle_help(),
        _ if screen.shows_help() => {}
        KeyCode::Esc if !screen.back() => return false,
        KeyCode::Enter | KeyCode::Right => screen.open(),
        KeyCode::Left => _ = screen.back(),
        KeyCode::Up | KeyCode::Char('k') => screen.move_selection(-1),
        KeyCode::Down | KeyCode::Char('j') => screen.move_selection(1),
        KeyCode::PageUp => screen.move_selection(-15),
        KeyCode::PageDown => screen.move_selection(15),
        KeyCode::Char('s') => screen.sort_next(),
        KeyCode::Char('r') => screen.reverse(),
        KeyCode::Char('/') => screen.begin_typing(),
        KeyCode::Char('t') => screen.toggle_threads(),
        KeyCode::Char('z') => screen.count_from_now(),
        KeyCode::Char(' ') => screen.toggle_pause(),
        _ => {}
    }
    true
}
