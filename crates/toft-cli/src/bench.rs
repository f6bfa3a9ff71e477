//! `toft bench`: compare this Toft with other allocators. The work is done by the crate `toft-bench`; this file hands
//! it the library that the command carries.

use std::env;
use std::ffi::OsString;

use toft_bench::cli::{self, Bench, Mount};
use toft_bench::peers::Peer;

use crate::library::{HASH, Library};
use crate::run::say;

/// The verb, in front of which the processes that the bench starts need it, too.
const VERB: &str = "bench";

/// The words of a process that the bench started to measure it, if we are one. Such a process goes straight to its
/// work, since to parse options is to allocate.
pub fn work_words() -> Option<Vec<OsString>> {
    let mut words = env::args_os().skip(1);
    (words.next()? == VERB && words.next()? == "work").then(|| words.collect())
}

/// Does that work.
pub fn work(words: &[OsString]) -> i32 {
    status(cli::work_of(words))
}

/// The verb.
pub fn bench(args: &Bench) -> i32 {
    // Held to the end: on a system without a writable place the library lives in our memory.
    let library = std::cell::OnceCell::new();
    let carried = || {
        let found = match library.get() {
            Some(found) => found,
            None => {
                let found = Library::find(None)?;
                library.get_or_init(|| found)
            }
        };
        Ok(Peer {
            name: "toft".into(),
            library: Some(found.path.clone()),
            version: format!("{} (content {HASH}, carried inside)", env!("CARGO_PKG_VERSION")),
        })
    };
    status(cli::bench(args, Mount { prefix: &[VERB], carried: Some(&carried) }))
}

fn status(result: Result<u8, String>) -> i32 {
    match result {
        Ok(status) => i32::from(status),
        Err(why) => {
            say(&why);
            2
        }
    }
}
