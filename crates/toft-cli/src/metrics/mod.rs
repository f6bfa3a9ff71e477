//! `toft metrics`: a running process's figures for monitoring, once, into a file again and again,
//! or to HTTP clients at a socket. `toft-profile` reads and writes the text; this decides when and
//! where to.

mod file;
mod interrupt;
mod listen;
mod source;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::verb::{End, Failure, SymbolFolders, USAGE, message, print};
use listen::Endpoint;
use source::Source;

const HELP: &str = "\
Examples:
  toft metrics 1234                                       print them once
  toft metrics 1234 --every 15 -o /var/lib/node_exporter/toft.prom
                                                          for the textfile collector of node_exporter
  toft metrics 1234 --listen 127.0.0.1:9464               for Prometheus itself: http://127.0.0.1:9464/metrics
  toft metrics 1234 --listen /run/toft.sock               at a local socket:
                                                          curl --unix-socket /run/toft.sock http://toft/metrics
  go tool pprof http://127.0.0.1:9464/debug/pprof/heap    the heap of that process; .../allocs has sampled stacks
  toft metrics --name 'nginx*' --listen 127.0.0.1:9464    all processes of that name, also those that start later
  toft metrics 1234 | grep '^toft_live_bytes'

No code runs in the process, and it is not stopped. You need the permission that a debugger needs. With --every and
with --listen the command runs until its only process ends, or until it is interrupted. It then removes the file or
the socket, so that no old figures are read. With --name or several processes it goes on without those that end.

Exit status: 0, also when the process ends meanwhile; 125 if a process cannot be read, or the figures cannot be written.";

/// Print a running process's figures for Prometheus, or serve them.
///
/// The metrics are live bytes and blocks, free memory, slabs, threads, and the call sites with most
/// live memory, in Prometheus' text format. They are read from outside of the process, and are
/// exact, as in `toft heap`.
#[derive(Args, Debug)]
#[command(name = "metrics", after_help = HELP)]
pub struct Metrics {
    /// Print one JSON object
    #[arg(long, conflicts_with_all = ["output", "listen"])]
    json: bool,
    /// Write to a file, which is replaced atomically, or with - to stdout
    #[arg(short, long, value_name = "FILE", conflicts_with = "listen")]
    output: Option<PathBuf>,
    /// Write the file again every SECONDS seconds, until the process ends
    #[arg(long, value_name = "SECONDS", value_parser = crate::verb::seconds, requires = "output")]
    every: Option<f64>,
    /// Serve HTTP at a Unix socket (a file name) or at a loopback address
    #[arg(long, value_name = "SOCKET|ADDRESS:PORT", value_parser = Endpoint::parse)]
    listen: Option<Endpoint>,
    /// Number of call sites listed separately; the others are summed up
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(0..=1000))]
    top: u16,
    #[command(flatten)]
    symbols: SymbolFolders,
    /// Read every process with this name, in which * stands for anything; also those that start
    /// later
    #[arg(long, value_name = "PATTERN")]
    name: Option<String>,
    /// Allow an address for --listen that other machines reach. Everyone who reaches it can read
    /// names of functions and files, and how much memory each uses: there is no password and no
    /// encryption
    #[arg(long, requires = "listen")]
    expose: bool,
    /// The process; of several, each figure has the labels process and pid
    #[arg(value_name = "PID", value_parser = crate::verb::pid, allow_negative_numbers = true,
        required_unless_present = "name")]
    pids: Vec<i32>,
}

pub fn metrics(args: &Metrics) -> End {
    if let Some(Endpoint::Address(address)) = &args.listen
        && !address.ip().is_loopback()
        && !args.expose
    {
        let why = "others could read it: give 127.0.0.1:PORT, [::1]:PORT or the name of a file, \
                   or --expose as well";
        return Err(Failure::new(USAGE, why));
    }
    let mut source = Source::new(&args.pids, args.name.as_deref(), args.top.into(), &args.symbols);
    // What cannot be read at all is reported before a file or a socket is made. Processes of a
    // name may come later.
    let is_once = args.every.is_none() && args.listen.is_none();
    if let Err(why) = source.check() {
        if is_once || !args.pids.is_empty() {
            return Err(why.into());
        }
        message(&format!("{why}; toft_processes is 0 until one starts"));
    }
    if args.json {
        print(format!("{}\n", source.object()?))?;
        return Ok(0);
    }
    let first = source.text()?;
    if !is_once {
        interrupt::catch();
    }
    match (&args.output, &args.listen) {
        (Some(path), _) => {
            let every = args.every.map(Duration::from_secs_f64);
            file::write(path, first, every, &mut source)?;
        }
        (None, Some(endpoint)) => listen::serve(endpoint, &mut source)?,
        (None, None) => print(first)?,
    }
    Ok(0)
}
