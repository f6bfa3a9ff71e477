//! `toft metrics`: a running process's figures for monitoring, once, into a file again and again, or to whoever asks at a
//! socket. `toft-profile` reads and writes the text; this says when and where to.

mod file;
mod interrupt;
mod listen;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use toft_profile::format::{Scrape, prometheus};
use toft_profile::{Error, Figures, Kernel, Process, Profile, take_with_figures};

use crate::profile::Names;
use crate::run::{REFUSED, say};
use crate::watch::Watched;
use crate::words::print;
use listen::Place;

const HELP: &str = "\
Examples:
  toft metrics 1234                                       print them once
  toft metrics 1234 --every 15 -o /var/lib/node_exporter/toft.prom
                                                          for the textfile collector of node_exporter
  toft metrics 1234 --listen 127.0.0.1:9464               for Prometheus itself: http://127.0.0.1:9464/metrics
  toft metrics 1234 --listen /run/toft.sock               at a local socket:
                                                          curl --unix-socket /run/toft.sock http://toft/metrics
  toft metrics 1234 | grep '^toft_live_bytes'

No code runs in the process, and it is not stopped. You need the permission that a debugger needs. With --every and
with --listen the command runs until the process ends, or until it is interrupted. It then removes the file or the
socket, so that no old figures are read.

Exit status: 0, also when the process ends meanwhile; 125 if the process cannot be read, or the figures cannot be written.";

/// Print a running process's figures for Prometheus, or serve them.
///
/// The metrics are live bytes and blocks, free memory, slabs, threads, and the call sites with most live memory, in
/// Prometheus' text format. They are read from outside of the process, and are exact, as in `toft heap`.
#[derive(Args, Debug)]
#[command(name = "metrics", after_help = HELP, after_long_help = HELP)]
pub struct Metrics {
    /// Print one JSON object
    #[arg(long, conflicts_with_all = ["output", "listen"])]
    json: bool,
    /// Write to a file, which is replaced atomically, or with - to stdout
    #[arg(short, long, value_name = "FILE", visible_alias = "file", conflicts_with = "listen")]
    output: Option<PathBuf>,
    /// Write the file again every SECONDS seconds, until the process ends
    #[arg(long, value_name = "SECONDS", value_parser = crate::words::seconds, requires = "output")]
    every: Option<f64>,
    /// Serve HTTP at a Unix socket (a file name) or at a loopback address
    #[arg(long, value_name = "SOCKET|ADDRESS:PORT", value_parser = Place::parse)]
    listen: Option<Place>,
    /// Number of call sites listed separately; the others are summed up
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(0..=1000))]
    top: u16,
    /// Search this folder for programs, libraries and debug files of the call sites; may be repeated
    #[arg(long, value_name = "FOLDER")]
    symbols: Vec<PathBuf>,
    /// The process
    #[arg(value_name = "PID", value_parser = crate::words::pid, allow_negative_numbers = true)]
    pid: i32,
}

/// The verb.
pub fn metrics(args: &Metrics) -> i32 {
    match serve(args) {
        Ok(()) => 0,
        Err(why) => {
            say(&why);
            REFUSED
        }
    }
}

fn serve(args: &Metrics) -> Result<(), String> {
    let mut source = Source::of(args);
    if args.json {
        let look = source.look().map_err(|error| source.told(&error))?;
        return print(format!("{}\n", object(&look, args.top.into())).as_bytes());
    }
    // What cannot be read at all is told before a file or a socket is made.
    let first = source.text().map_err(|error| source.told(&error))?;
    if args.every.is_some() || args.listen.is_some() {
        interrupt::expect();
    }
    match (&args.output, &args.listen) {
        (Some(path), _) => {
            let every = args.every.map(Duration::from_secs_f64);
            file::write(path, first, every, &mut source)
        }
        (None, Some(place)) => listen::answer(place, &mut source),
        (None, None) => print(first.as_bytes()),
    }
}

/// A look at the process.
struct Look {
    profile: Profile,
    figures: Figures,
    seconds: f64,
}

/// Where figures are from: the process, for as long as it is the same one.
pub struct Source {
    process: Watched,
    top: usize,
    names: Names,
}

impl Source {
    fn of(args: &Metrics) -> Source {
        let root = PathBuf::from(format!("/proc/{}/root", args.pid));
        let folders = args.symbols.iter().cloned().chain([root]).collect();
        let (process, top) = (Watched::of(args.pid), args.top.into());
        Source { process, top, names: Names::new(folders) }
    }

    /// Why there is nothing to read. What goes wrong while it ends is its end.
    pub fn told(&self, error: &Error) -> String {
        if self.process.has_ended() { self.process.ended() } else { error.to_string() }
    }

    /// Why it is not there any more.
    pub fn why_not(&self) -> String {
        if interrupt::came() { "interrupted".into() } else { self.process.ended() }
    }

    /// Whether the process is still there, and somebody wants to know.
    pub fn is_there(&self) -> bool {
        !interrupt::came() && !self.process.has_ended()
    }

    fn look(&mut self) -> Result<Look, Error> {
        let pid = self.process.pid();
        if !self.is_there() {
            return Err(Error::Ended(pid));
        }
        let start = Instant::now();
        let (mut profile, figures) = take_with_figures(&Process::open(pid)?)?;
        (profile.name, profile.resident) = Kernel::name_and_resident(pid)?;
        let seconds = start.elapsed().as_secs_f64();
        self.names.give(&mut profile);
        Ok(Look { profile, figures, seconds })
    }

    /// What is to be read.
    pub fn text(&mut self) -> Result<String, Error> {
        let top = self.top;
        let Look { profile, figures, seconds } = &self.look()?;
        Ok(prometheus(&Scrape { profile, figures, top, seconds: *seconds }))
    }
}

fn object(look: &Look, top: usize) -> Value {
    let Look { profile, figures, seconds } = look;
    let places = profile.by_place();
    let sites = places.iter().take(top).map(|row| {
        json!({ "site": row.place(), "file": row.module, "bytes": row.bytes, "blocks": row.objects })
    });
    let others = places.iter().skip(top);
    let (bytes, blocks) =
        others.fold((0, 0), |(bytes, blocks), row| (bytes + row.bytes, blocks + row.objects));
    json!({
        "pid": profile.pid, "process": profile.name, "version": profile.toft, "seconds": seconds,
        "live_bytes": profile.bytes, "live_blocks": profile.objects,
        "large_live_bytes": figures.large_live_bytes, "large_blocks": figures.large_blocks,
        "free_slab_bytes": figures.slot_bytes - figures.slot_live_bytes,
        "empty_slab_bytes": figures.pooled_bytes, "free_large_bytes": figures.large_kept_bytes,
        "slabs": figures.slabs, "empty_slabs": figures.pooled_slabs,
        "threads": figures.threads, "ended_threads": figures.ended_threads,
        "resident": profile.resident, "partitions": profile.partitions,
        "descriptors": figures.descriptors, "doubts": profile.doubts,
        "sites": sites.collect::<Vec<_>>(), "other_sites": { "bytes": bytes, "blocks": blocks },
    })
}
