//! Answers HTTP requests for figures and heaps, at a socket. One request at a time.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{Mode, umask};
use toft_profile::format::CONTENT_TYPE;

use super::Source;
use crate::verb::message;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A socket with the name of a file.
    File(PathBuf),
    Address(SocketAddr),
}

impl Endpoint {
    /// As it is given on the command line.
    pub fn parse(text: &str) -> Result<Endpoint, String> {
        match text.parse::<SocketAddr>() {
            Ok(address) => Ok(Endpoint::Address(address)),
            Err(_) if text.is_empty() => Err("not the name of a file".into()),
            Err(_) if !text.contains('/') && text.contains(':') => {
                Err("not an address: give 127.0.0.1:PORT, [::1]:PORT, or the name of a file, such as ./toft.sock"
                    .into())
            }
            Err(_) => Ok(Endpoint::File(text.into())),
        }
    }
}

/// How long a client may take to ask, and to read the answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Most bytes of a request.
const REQUEST_MOST: usize = 8 << 10;

/// A connection: what can be read from and written to, for a while.
trait Stream: Read + Write {
    fn set_timeouts(&self, time: Duration) -> io::Result<()>;
}

macro_rules! stream {
    ($($stream:ty),*) => { $(
        impl Stream for $stream {
            fn set_timeouts(&self, time: Duration) -> io::Result<()> {
                self.set_nonblocking(false)?;
                self.set_read_timeout(Some(time))?;
                self.set_write_timeout(Some(time))
            }
        }
    )* };
}
stream!(UnixStream, std::net::TcpStream);

/// A socket's file. It is removed when the process no longer listens, unless another file has that
/// name by then.
struct SocketFile<'a> {
    path: &'a Path,
    own: Option<(u64, u64)>,
}

impl<'a> SocketFile<'a> {
    fn of(path: &'a Path) -> Self {
        SocketFile { path, own: identity(path) }
    }
}

impl Drop for SocketFile<'_> {
    fn drop(&mut self) {
        if self.own.is_some() && self.own == identity(self.path) {
            // If it is not there any more, that is the wanted state.
            let _ = fs::remove_file(self.path);
        }
    }
}

/// Returns the device and the number of a file, which no other file has.
fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Answers until the process has ended.
pub fn serve(endpoint: &Endpoint, source: &mut Source) -> Result<(), String> {
    let failed = |error: io::Error| match endpoint {
        Endpoint::File(path) => format!("cannot listen at {}: {error}", path.display()),
        Endpoint::Address(address) => format!("cannot listen at {address}: {error}"),
    };
    match endpoint {
        Endpoint::File(path) => {
            let listener = bind(path).map_err(failed)?;
            let _file = SocketFile::of(path);
            listener.set_nonblocking(true).map_err(failed)?;
            let shown = path.display();
            message(&format!("listening; next: curl --unix-socket {shown} http://toft/metrics"));
            accept_until_end(&listener, || Ok(Box::new(listener.accept()?.0)), source)
                .map_err(failed)?;
        }
        Endpoint::Address(address) => {
            let listener = TcpListener::bind(address).map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            message(&format!("listening; next: curl http://{address}/metrics"));
            accept_until_end(&listener, || Ok(Box::new(listener.accept()?.0)), source)
                .map_err(failed)?;
        }
    }
    message(&source.end_reason());
    Ok(())
}

/// Binds a socket to a name, for this user alone: its figures are for them only. A socket that an
/// earlier process has left behind is removed first; anything else that has the name stays.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let private = || {
        let before = umask(Mode::from_bits_truncate(0o077));
        let listener = UnixListener::bind(path);
        umask(before);
        listener
    };
    match private() {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let is_socket =
                fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
            let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
            if is_socket && UnixStream::connect(path).is_err_and(refused) {
                fs::remove_file(path)?;
                return private();
            }
            Err(error)
        }
        result => result,
    }
}

fn accept_until_end(
    listener: &impl AsFd,
    mut accept: impl FnMut() -> io::Result<Box<dyn Stream>>,
    source: &mut Source,
) -> io::Result<()> {
    while source.is_running() {
        let mut asked = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        match poll(&mut asked, PollTimeout::from(200u16)) {
            Err(nix::errno::Errno::EINTR) | Ok(0) => continue,
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        // A client that disconnects or does not read the answer does not end the service.
        if let Ok(mut stream) = accept() {
            let _ = exchange(&mut *stream, source);
        }
    }
    Ok(())
}

fn exchange(stream: &mut dyn Stream, source: &mut Source) -> io::Result<()> {
    stream.set_timeouts(TIMEOUT)?;
    let request = request(stream)?;
    const PLAIN: &str = "text/plain; charset=utf-8";
    let unavailable =
        |why: String| ("503 Service Unavailable", PLAIN, format!("{why}\n").into_bytes());
    let (status, kind, body) = match reply(&request) {
        Err((status, why)) => (status, PLAIN, format!("{why}\n").into_bytes()),
        Ok(Page::Metrics) => match source.text() {
            Ok(text) => ("200 OK", CONTENT_TYPE, text.into_bytes()),
            Err(why) => unavailable(why),
        },
        Ok(Page::Pprof { pid, stacks }) => match source.pprof(pid, stacks) {
            Ok(profile) => ("200 OK", "application/octet-stream", profile),
            Err(why) => unavailable(why),
        },
    };
    // With this header pprof prints the text of an error, and not the status alone.
    let error = if kind == PLAIN { "X-Go-Pprof: 1\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{error}Connection: close\r\n\r\n",
        body.len()
    );
    let body: &[u8] = if request.starts_with(b"HEAD ") { &[] } else { &body };
    let (answer, end) = ([head.as_bytes(), body].concat(), Instant::now() + TIMEOUT);
    let mut rest = answer.as_slice();
    while !rest.is_empty() {
        let written = stream.write(rest)?;
        rest = &rest[written..];
        // A client that reads a byte at a time must not block the others.
        if written == 0 || Instant::now() > end {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    stream.flush()
}

/// What a client asks, up to its empty line, in the time that there is for it.
fn request(stream: &mut dyn Stream) -> io::Result<Vec<u8>> {
    let (mut request, end) = (Vec::new(), Instant::now() + TIMEOUT);
    let mut piece = [0; 1024];
    while !request.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let read = stream.read(&mut piece)?;
        request.extend_from_slice(&piece[..read]);
        if read == 0 || request.len() > REQUEST_MOST || Instant::now() > end {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(request)
}

/// What can be asked for.
#[derive(Debug, PartialEq, Eq)]
enum Page {
    Metrics,
    /// A heap as pprof reads it, of a process among several.
    Pprof {
        pid: Option<i32>,
        stacks: bool,
    },
}

/// The page that is asked for; else the status and the reason why there is none.
fn reply(request: &[u8]) -> Result<Page, (&'static str, &'static str)> {
    const BAD: &str = "400 Bad Request";
    let line = request.split(|&byte| byte == b'\r').next().unwrap_or(&[]);
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    match (words.next(), words.next(), words.next()) {
        (Some("GET" | "HEAD"), Some(path), Some(version)) if version.starts_with("HTTP/1.") => {
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            let pid = query.split('&').find_map(|part| part.strip_prefix("pid="));
            let pid = pid.map(str::parse).transpose().map_err(|_| (BAD, BAD))?;
            // `seconds` is not refused, though a profile is of one moment: with `params` in its
            // configuration Parca 0.28.0 adds it to all addresses, because of profiles of Go.
            match path {
                "/" | "/metrics" => Ok(Page::Metrics),
                "/debug/pprof/heap" => Ok(Page::Pprof { pid, stacks: false }),
                "/debug/pprof/allocs" => Ok(Page::Pprof { pid, stacks: true }),
                _ => Err((
                    "404 Not Found",
                    "there is /metrics, /debug/pprof/heap and /debug/pprof/allocs",
                )),
            }
        }
        (_, _, Some(version)) if version.starts_with("HTTP/") => {
            Err(("405 Method Not Allowed", "only GET and HEAD are answered"))
        }
        _ => Err((BAD, BAD)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_addresses_or_files() {
        assert_eq!(Endpoint::parse("./a.sock"), Ok(Endpoint::File("./a.sock".into())));
        assert_eq!(Endpoint::parse("/run/a:b"), Ok(Endpoint::File("/run/a:b".into())));
        for address in ["127.0.0.1:0", "[::1]:9464", "0.0.0.0:9464"] {
            assert_eq!(Endpoint::parse(address), Ok(Endpoint::Address(address.parse().unwrap())));
        }
        for bad in ["localhost:80", "127.0.0.1:x", ""] {
            assert!(Endpoint::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn questions_are_answered_by_their_kind() {
        assert_eq!(reply(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), Ok(Page::Metrics));
        assert_eq!(reply(b"HEAD /?a=b HTTP/1.0\r\n\r\n"), Ok(Page::Metrics));
        let heap = |pid, stacks| Ok(Page::Pprof { pid, stacks });
        assert_eq!(reply(b"GET /debug/pprof/heap HTTP/1.1\r\n\r\n"), heap(None, false));
        assert_eq!(
            reply(b"GET /debug/pprof/allocs?a=b&pid=7 HTTP/1.1\r\n\r\n"),
            heap(Some(7), true)
        );
        assert_eq!(
            reply(b"GET /debug/pprof/heap?gc=1&seconds=2 HTTP/1.1\r\n\r\n"),
            heap(None, false)
        );
        let status = |request: &[u8]| reply(request).map_err(|(status, _)| status);
        let bad = Err("400 Bad Request");
        assert_eq!(status(b"GET /debug/pprof/heap?pid=x HTTP/1.1\r\n\r\n"), bad);
        assert_eq!(status(b"GET /else HTTP/1.1\r\n\r\n"), Err("404 Not Found"));
        assert_eq!(status(b"POST /metrics HTTP/1.1\r\n\r\n"), Err("405 Method Not Allowed"));
        assert_eq!(status(b"hello\r\n\r\n"), bad);
    }
}
