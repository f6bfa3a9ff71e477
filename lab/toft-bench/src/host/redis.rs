//! Redis: a server on the peer, the load from a client that is not.

use super::{HostWorkload, Stage};
use crate::child::{self, Killed, Limits};
use crate::outcome::{Outcome, megabytes, status_kib};
use crate::params::Params;
use crate::peers::Peer;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
pub const WORKLOAD: HostWorkload = HostWorkload {
    name: "redis",
    file: include_str!("../../workloads/redis.toml"),
    prepare: |_| {
        for program in ["redis-server", "redis-benchmark"] {
            Command::new(program)
                .arg("--version")
                .output()
                .map_err(|_| format!("{program} is not there: apt-get install redis"))?;
        }
        Stage::new()
    },
    run,
};

fn run(peer: &Peer, params: &Params, stage: &Stage, limits: Limits) -> Result<Outcome, String> {
    let socket = stage.path("redis.sock");
    let server = Server::start(peer, &socket)?;
    let requests = params.get("requests", 10_000);
    // Ranges return hundreds of elements each, so fewer of them weigh as much.
    let loads = [("set,get,lpush", requests), ("lrange_100", requests / 10)];
    let (mut total, mut seconds) = (0.0, 0.0);
    for (tests, requests) in loads {
        let ended = child::run(benchmark(&socket, tests, requests, params), limits)?;
        let rates = rates(&ended.output)?;
        total += requests as f64 * rates.len() as f64;
        seconds += rates.iter().map(|rate| requests as f64 / rate).sum::<f64>();
    }
    let pid = server.child.pid();
    Ok(Outcome::timed(total as u64, seconds)
        .with("kreq", total / seconds / 1e3)
        .with("peak_mb", megabytes(status_kib(&pid, "VmHWM")))
        .with("rss_mb", megabytes(status_kib(&pid, "VmRSS"))))
}

fn benchmark(socket: &Path, tests: &str, requests: u64, params: &Params) -> Command {
    let system = Peer::without_library("client", "");
    let mut client = child::on_peer(&system, "redis-benchmark");
    client.arg("-s").arg(socket).args(["--csv", "-t", tests]);
    for (option, value) in [
        ("-n", requests),
        ("-P", params.get("pipeline", 16)),
        ("-d", params.get("size", 128)),
        ("-r", params.get("keys", 100_000)),
    ] {
        client.arg(option).arg(value.to_string());
    }
    client
}

/// The requests per second of each test, from the client's CSV.
fn rates(csv: &str) -> Result<Vec<f64>, String> {
    let rates: Vec<f64> = csv
        .lines()
        .filter(|line| line.starts_with('"') && !line.starts_with("\"test\""))
        .filter(|line| !line.contains("needed to benchmark"))
        .filter_map(|line| line.split("\",\"").nth(1)?.trim_matches('"').parse().ok())
        .collect();
    if rates.is_empty() { Err(format!("redis-benchmark said {csv:?}")) } else { Ok(rates) }
}

struct Server {
    child: Killed,
    socket: PathBuf,
}

impl Server {
    fn start(peer: &Peer, socket: &Path) -> Result<Self, String> {
        let mut command = child::on_peer(peer, "redis-server");
        if peer.library.is_none() {
            // Debian's server is linked with jemalloc; its own libc, preloaded, comes before that.
            command.env("LD_PRELOAD", "libc.so.6");
        }
        command
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--loglevel", "warning"])
            .arg("--unixsocket")
            .arg(socket)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("redis-server: {error}"))?;
        let mut server = Self { child: Killed(child), socket: socket.to_owned() };
        server.wait_until_ready()?;
        let pid = server.child.pid();
        match &peer.library {
            Some(library) if !child::is_loaded(&pid, library) => {
                Err(format!("{} is not loaded in redis-server", library.display()))
            }
            _ => Ok(server),
        }
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(10) {
            if UnixStream::connect(&self.socket).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("redis-server ended at once: {status}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err("redis-server did not open its socket within 10 s".to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_preparations_are_not_counted() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"250000.50\",\"1.0\"\n\"GET\",\"500000.00\",\"0.9\"\n";
        assert_eq!(rates(csv).unwrap(), [250_000.5, 500_000.0]);
        let ranged = "\"LPUSH (needed to benchmark LRANGE)\",\"9.0\",\"1\"\n\"LRANGE_100 (first 100 elements)\",\"7.5\",\"1\"\n";
        assert_eq!(rates(ranged).unwrap(), [7.5]);
        assert!(rates("Could not connect").is_err());
    }
}
