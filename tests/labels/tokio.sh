# A server with tokio that keeps what its clients set, after 20 clients.
# needs: cargo cargo
# needs: python3 python3
# language: Rust
# symbols: all
# own: keeps
# timeout: 600
. "$LABELS/lib/labelled.sh"
mkdir src
cat >Cargo.toml <<'T'
[package]
name = "keeps"
version = "0.1.0"
edition = "2021"
[dependencies]
tokio = { version = "1", features = ["io-util", "macros", "net", "rt-multi-thread", "sync"] }
[profile.release]
debug = "line-tables-only"
[workspace]
T
cat >src/main.rs <<'R'
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, RwLock};

#[derive(Default)]
struct Store {
    values: HashMap<String, Vec<u8>>,
    lists: BTreeMap<String, Vec<String>>,
    log: Vec<String>,
}

fn set(store: &mut Store, key: &str, value: &str) -> String {
    store.values.insert(key.to_owned(), value.as_bytes().to_vec());
    "ok\n".to_owned()
}

fn push(store: &mut Store, key: &str, value: &str) -> String {
    let list = store.lists.entry(key.to_owned()).or_default();
    list.push(value.to_uppercase());
    format!("{}\n", list.len())
}

fn get(store: &Store, key: &str) -> String {
    let value = store.values.get(key).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    format!("{}\n", value.unwrap_or_default())
}

fn answer(store: &mut Store, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    store.log.push(format!("asked: {line}"));
    match words[..] {
        ["set", key, value] => set(store, key, value),
        ["push", key, value] => push(store, key, value),
        ["get", key] => get(store, key),
        _ => "what?\n".to_owned(),
    }
}

async fn serve(stream: TcpStream, store: Arc<RwLock<Store>>, done: mpsc::Sender<usize>) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    let mut count = 0;
    while let Ok(Some(line)) = lines.next_line().await {
        let text = answer(&mut *store.write().await, &line);
        if write.write_all(text.as_bytes()).await.is_err() { break }
        count += 1;
    }
    let _ = done.send(count).await;
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    let port = std::env::args().nth(1).unwrap();
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await.unwrap();
    let store = Arc::new(RwLock::new(Store::default()));
    let (done, mut counts) = mpsc::channel(64);
    tokio::spawn(async move { while counts.recv().await.is_some() {} });
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(serve(stream, store.clone(), done.clone()));
    }
}
R
built release/keeps cargo build --quiet --release --target-dir "$BUILT"
port=$(port)
serve -- "$BUILT/release/keeps" "$port"
ready python3 -c "import socket; socket.create_connection(('127.0.0.1', $port))"
python3 - "$port" <<'P'
import socket, sys
clients = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))).makefile("rw") for _ in range(20)]
for number in range(500):
    for who, client in enumerate(clients):
        for ask in f"set k{who}.{number} {'v' * (number % 300 + 1)}", f"push l{number % 50} w{number}", f"get k{who}.{number}":
            client.write(ask + "\n")
            client.flush()
            client.readline()
P
profile
