//! Figures to whoever asks by HTTP, at a socket that only this machine can reach. One question at a time.

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
use crate::run::say;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A socket with the name of a file.
    File(PathBuf),
    /// An address of this machine.
    Address(SocketAddr),
}

impl Place {
    /// As it is given on the command line.
    pub fn parse(text: &str) -> Result<Place, String> {
        match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(Place::Address(address)),
            Ok(_) => {
                Err("others could read it: give 127.0.0.1:PORT, [::1]:PORT or the name of a file".into())
            }
            Err(_) if text.is_empty() => Err("not the name of a file".into()),
            Err(_) if !text.contains('/') && text.contains(':') => {
                Err("not an address: give 127.0.0.1:PORT, [::1]:PORT, or the name of a file, such as ./toft.sock"
                    .into())
            }
            Err(_) => Ok(Place::File(text.into())),
        }
    }
}

/// How long somebody may take to ask, and to read the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most bytes of a question.
const QUESTION: usize = 8 << 10;

/// A connection: what can be read from and written to, for a while.
trait Peer: Read + Write {
    fn be_patient(&self, time: Duration) -> io::Result<()>;
}

macro_rules! peer {
    ($($stream:ty),*) => { $(
        impl Peer for $stream {
            fn be_patient(&self, time: Duration) -> io::Result<()> {
                self.set_nonblocking(false)?;
                self.set_read_timeout(Some(time))?;
                self.set_write_timeout(Some(time))
            }
        }
    )* };
}
peer!(UnixStream, std::net::TcpStream);

/// A socket's file, which goes when nobody listens any more; unless somebody else has one of that name by then.
struct Gone<'a> {
    path: &'a Path,
    ours: Option<(u64, u64)>,
}

impl<'a> Gone<'a> {
    fn of(path: &'a Path) -> Self {
        Gone { path, ours: Gone::file(path) }
    }

    /// What tells a file from any other.
    fn file(path: &Path) -> Option<(u64, u64)> {
        fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
    }
}

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        if self.ours.is_some() && self.ours == Gone::file(self.path) {
            // If it is not there any more, that is what was wanted.
            let _ = fs::remove_file(self.path);
        }
    }
}

/// Answers until the process has ended.
pub fn answer(place: &Place, source: &mut Source) -> Result<(), String> {
    let failed = |error: io::Error| match place {
        Place::File(path) => format!("cannot listen at {}: {error}", path.display()),
        Place::Address(address) => format!("cannot listen at {address}: {error}"),
    };
    match place {
        Place::File(path) => {
            let listener = bind(path).map_err(failed)?;
            let _file = Gone::of(path);
            listener.set_nonblocking(true).map_err(failed)?;
            let shown = path.display();
            say(&format!("listening; next: curl --unix-socket {shown} http://toft/metrics"));
            serve(&listener, || Ok(Box::new(listener.accept()?.0)), source).map_err(failed)?;
        }
        Place::Address(address) => {
            let listener = TcpListener::bind(address).map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            say(&format!("listening; next: curl http://{address}/metrics"));
            serve(&listener, || Ok(Box::new(listener.accept()?.0)), source).map_err(failed)?;
        }
    }
    say(&source.why_not());
    Ok(())
}

/// Binds a socket to a name, for this user alone: it tells what only they may look at. One that somebody has left behind goes first; whatever else has the name stays.
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

fn serve(
    listener: &impl AsFd,
    mut accept: impl FnMut() -> io::Result<Box<dyn Peer>>,
    source: &mut Source,
) -> io::Result<()> {
    while source.is_there() {
        let mut asked = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        match poll(&mut asked, PollTimeout::from(200u16)) {
            Err(nix::errno::Errno::EINTR) | Ok(0) => continue,
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        // Who has gone again, or does not read the answer, is no reason to end.
        if let Ok(mut peer) = accept() {
            let _ = exchange(&mut *peer, source);
        }
    }
    Ok(())
}

fn exchange(peer: &mut dyn Peer, source: &mut Source) -> io::Result<()> {
    peer.be_patient(PATIENCE)?;
    let question = question(peer)?;
    let (status, kind, body) = match reply(&question) {
        Err(status) => (status, "text/plain; charset=utf-8", format!("{status}\n")),
        Ok(()) => match source.text() {
            Ok(text) => ("200 OK", CONTENT_TYPE, text),
            Err(error) => {
                ("503 Service Unavailable", "text/plain; charset=utf-8", format!("{error}\n"))
            }
        },
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let body = if question.starts_with(b"HEAD ") { "" } else { body.as_str() };
    let (answer, end) = ([head.as_bytes(), body.as_bytes()].concat(), Instant::now() + PATIENCE);
    let mut rest = answer.as_slice();
    while !rest.is_empty() {
        let written = peer.write(rest)?;
        rest = &rest[written..];
        // Who reads a byte at a time does not keep the others waiting.
        if written == 0 || Instant::now() > end {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    peer.flush()
}

/// What somebody asks, up to its empty line, in the time that there is for it.
fn question(peer: &mut dyn Peer) -> io::Result<Vec<u8>> {
    let (mut question, end) = (Vec::new(), Instant::now() + PATIENCE);
    let mut piece = [0; 1024];
    while !question.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let read = peer.read(&mut piece)?;
        question.extend_from_slice(&piece[..read]);
        if read == 0 || question.len() > QUESTION || Instant::now() > end {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(question)
}

/// Whether that is a question that has an answer; else the status that says so.
fn reply(question: &[u8]) -> Result<(), &'static str> {
    let line = question.split(|&byte| byte == b'\r').next().unwrap_or(&[]);
    let mut words = line.split(|&byte| byte == b' ');
    match (words.next(), words.next(), words.next()) {
        (Some(b"GET" | b"HEAD"), Some(path), Some(version)) if version.starts_with(b"HTTP/1.") => {
            let path = path.split(|&byte| byte == b'?').next().unwrap_or(&[]);
            if matches!(path, b"/" | b"/metrics") { Ok(()) } else { Err("404 Not Found") }
        }
        (_, _, Some(version)) if version.starts_with(b"HTTP/") => Err("405 Method Not Allowed"),
        _ => Err("400 Bad Request"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_of_this_machine() {
        assert_eq!(Place::parse("./a.sock"), Ok(Place::File("./a.sock".into())));
        assert_eq!(Place::parse("/run/a:b"), Ok(Place::File("/run/a:b".into())));
        for address in ["127.0.0.1:0", "[::1]:9464"] {
            assert_eq!(Place::parse(address), Ok(Place::Address(address.parse().unwrap())));
        }
        for bad in ["0.0.0.0:9464", "192.168.1.1:80", "[::]:80", "localhost:80", "127.0.0.1:x", ""]
        {
            assert!(Place::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn questions_are_answered_by_their_kind() {
        assert_eq!(reply(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), Ok(()));
        assert_eq!(reply(b"HEAD /?a=b HTTP/1.0\r\n\r\n"), Ok(()));
        assert_eq!(reply(b"GET /else HTTP/1.1\r\n\r\n"), Err("404 Not Found"));
        assert_eq!(reply(b"POST /metrics HTTP/1.1\r\n\r\n"), Err("405 Method Not Allowed"));
        assert_eq!(reply(b"hello\r\n\r\n"), Err("400 Bad Request"));
    }
}
