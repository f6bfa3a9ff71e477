//! A small web server whose allocator is Toft: it remembers each request, and answers how many
//! there were.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

#[global_allocator]
static ALLOCATOR: toft::Toft = toft::Toft;

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "0.0.0.0:8080".into());
    let mut requests = Vec::new();
    for stream in TcpListener::bind(address)?.incoming() {
        // A client that goes away is no reason to stop.
        if let Err(error) = stream.and_then(|stream| answer(stream, &mut requests)) {
            eprintln!("server: {error}");
        }
    }
    Ok(())
}

fn answer(mut stream: TcpStream, requests: &mut Vec<String>) -> io::Result<()> {
    let mut first = String::new();
    let mut lines = BufReader::new(stream.try_clone()?);
    lines.read_line(&mut first)?;
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 && !line.trim_end().is_empty() {
        line.clear();
    }
    requests.push(first);
    let body = format!("{} requests\n", requests.len());
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
