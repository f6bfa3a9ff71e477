//! `toft bench`: compare this Toft with other allocators. The work is done by the crate
//! `toft-bench`; this file hands it the libraries that the command carries.

use std::cell::OnceCell;
use std::env;
use std::ffi::OsString;

use toft_bench::cli::{self, Bench};
use toft_bench::mount::{Carried, LIGHT, Mount, SECURE};
use toft_bench::peers::Peer;

use crate::library::{HASH, LIGHT_HASH, Library, SECURE_HASH};
use crate::verb::{End, Failure, USAGE};

/// The verb, in front of which the processes that the bench starts need it, too.
const VERB: &str = "bench";

/// The words of a process that the bench started to measure it, if we are one. Such a process goes
/// straight to its work, since to parse options is to allocate.
pub fn work_words() -> Option<Vec<OsString>> {
    let mut words = env::args_os().skip(1);
    (words.next()? == VERB && words.next()? == "work").then(|| words.collect())
}

pub fn work(words: &[OsString]) -> End {
    end(cli::work_of(words))
}

pub fn bench(args: &Bench) -> End {
    // Held to the end: on a system without a writable place the libraries live in our memory.
    let place = OnceCell::new;
    let usual = Inside { name: "toft", hash: HASH, find: || Library::find(None), place: place() };
    let secure = Inside { name: SECURE, hash: SECURE_HASH, find: Library::secure, place: place() };
    let find = Library::secure_light;
    let light = Inside { name: LIGHT, hash: LIGHT_HASH, find, place: place() };
    end(cli::bench(args, Mount { prefix: &[VERB], carried: &[&usual, &secure, &light] }))
}

/// A library that the command carries, as something to be compared.
struct Inside {
    name: &'static str,
    hash: &'static str,
    find: fn() -> Result<Library, String>,
    place: OnceCell<Library>,
}

impl Carried for Inside {
    fn name(&self) -> &str {
        self.name
    }

    fn peer(&self) -> Result<Peer, String> {
        let found = match self.place.get() {
            Some(found) => found,
            None => {
                let found = (self.find)()?;
                self.place.get_or_init(|| found)
            }
        };
        let version =
            format!("{} (content {}, carried inside)", env!("CARGO_PKG_VERSION"), self.hash);
        Ok(Peer { name: self.name.into(), library: Some(found.path.clone()), version })
    }
}

fn end(result: Result<u8, String>) -> End {
    result.map(i32::from).map_err(|why| Failure::new(USAGE, why))
}
