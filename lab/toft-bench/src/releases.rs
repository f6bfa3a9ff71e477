//! The release dates of the peers' versions: recorded data, each with its source.

use crate::peers::Peer;
use crate::standing::is_ours;
use serde::Deserialize;
use std::sync::LazyLock;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    release: Vec<Release>,
}

/// A version of some peers and when it was released.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    pub peers: Vec<String>,
    /// The version as a peer states it.
    pub version: String,
    /// The release of the allocator that a crate or a package carries, if it has another number.
    pub contains: Option<String>,
    pub date: String,
    /// Where the day is from.
    #[cfg_attr(not(test), expect(dead_code, reason = "it is for people who check the day"))]
    pub source: String,
}

/// Every release that is recorded.
pub fn all() -> &'static [Release] {
    static READ: LazyLock<Vec<Release>> = LazyLock::new(|| {
        let file: File = toml::from_str(include_str!("../peers/releases.toml"))
            .expect("peers/releases.toml does not parse");
        file.release
    });
    &READ
}

/// When the version of a peer was released: the day, `this revision` of a build of Toft, or
/// `unknown`.
pub fn released(peer: &Peer) -> &'static str {
    match release(peer) {
        _ if is_ours(&peer.name) => "this revision",
        Some(release) => &release.date,
        None => "unknown",
    }
}

/// The version of a peer, and what that contains.
pub fn version(peer: &Peer) -> String {
    match release(peer).and_then(|release| release.contains.as_ref()) {
        Some(contains) => format!("{} ({contains})", peer.version),
        None => peer.version.clone(),
    }
}

/// A peer in a line of several: its name, its version and when that was released.
pub fn named(peer: &Peer) -> String {
    let line = format!("{} {}", peer.name, version(peer));
    format!("{}, {}", line.trim_end(), released(peer))
}

pub fn line(peers: &[Peer]) -> String {
    peers.iter().map(named).collect::<Vec<_>>().join("; ")
}

fn release(peer: &Peer) -> Option<&'static Release> {
    // Settings and a path may follow the name.
    let name = peer.name.split(['@', '=']).next().unwrap_or(&peer.name);
    all().iter().find(|release| {
        release.version == peer.version && release.peers.iter().any(|known| known == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{Recipe, recipe, recipes};

    #[test]
    fn a_version_has_its_date_and_one_that_is_not_recorded_is_unknown() {
        assert_eq!(released(&Peer::without_library("glibc", "2.36")), "2022-08-01");
        assert_eq!(released(&Peer::without_library("glibc@A:1", "2.36")), "2022-08-01");
        for (name, version) in [("glibc", "2.37"), ("tcmalloc", "2.36"), ("x=/a.so", "")] {
            assert_eq!(
                released(&Peer::without_library(name, version)),
                "unknown",
                "{name} {version}"
            );
        }
        assert_eq!(released(&Peer::without_library("toft-secure", "0.1.0")), "this revision");
        let rpmalloc = named(&Peer::without_library("rpmalloc", "rpmalloc-sys 0.2.3+b097fd0"));
        assert!(rpmalloc.contains("(rpmalloc after 1.4.3), 2022-04-04"), "{rpmalloc}");
    }

    #[test]
    fn every_entry_is_a_day_of_a_peer_that_exists_and_has_a_source() {
        for release in all() {
            for name in &release.peers {
                assert!(recipe(name).is_some(), "{name}");
            }
            let day: Vec<&str> = release.date.split('-').collect();
            assert_eq!(day.iter().map(|part| part.len()).collect::<Vec<_>>(), [4, 2, 2]);
            assert!(day.iter().all(|part| part.parse::<u32>().is_ok()), "{}", release.date);
            assert!(!release.source.is_empty() && !release.version.is_empty());
        }
    }

    /// A new version needs a line here before its tables can say how old it is.
    #[test]
    fn every_fast_peer_has_a_recorded_release() {
        for Recipe { name, .. } in recipes().iter().filter(|recipe| recipe.fast) {
            assert!(all().iter().any(|release| release.peers.contains(name)), "{name}");
        }
    }
}
