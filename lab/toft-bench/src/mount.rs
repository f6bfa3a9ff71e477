//! Which allocators are compared: those that the command `toft` carries, and those that are found.

use crate::peer_settings::of_carried;
use crate::peer_table;
use crate::peers::{self, Peer};
use std::ffi::OsString;

/// What the secure build is called as a peer.
pub const SECURE: &str = "toft-secure";
/// What the light secure build is called.
pub const LIGHT: &str = "toft-secure-light";

/// The option by which `toft bench` names a library that it carries. It comes before all others,
/// and three words follow: the peer's name, the path of the library, and its version.
pub const CARRIES: &str = "--carries";

/// The libraries that `toft bench` carries. They are the peers of their names.
#[derive(Clone, Copy, Default)]
pub struct Mount<'a> {
    carried: &'a [Peer],
}

impl<'a> Mount<'a> {
    /// With these libraries.
    #[must_use]
    pub fn of(carried: &'a [Peer]) -> Self {
        Mount { carried }
    }

    /// What is carried of this name, with the variables that it says.
    pub(crate) fn carried(&self, name: &str) -> Option<Peer> {
        self.carried.iter().find_map(|carried| of_carried(name, carried))
    }
}

/// Takes the libraries that `toft bench` carries off the words of the command line.
#[must_use]
pub fn take_carried(words: &mut Vec<OsString>) -> Vec<Peer> {
    let mut carried = Vec::new();
    while let [option, name, path, version, ..] = &words[..]
        && option == CARRIES
    {
        carried.push(Peer {
            name: name.to_string_lossy().into_owned(),
            library: Some(path.into()),
            version: version.to_string_lossy().into_owned(),
        });
        words.drain(..4);
    }
    carried
}

/// The peers that are asked for. A library that is carried takes the place of one that
/// would be looked for in the workspace.
pub(crate) fn choose_peers(
    names: &[String],
    quick: bool,
    mount: Mount,
) -> Result<Vec<Peer>, String> {
    if names.is_empty() {
        let mut found = if quick { quick_peers() } else { peers::choose(&[])? };
        for recipe in peers::recipes().iter().filter(|recipe| !recipe.extra) {
            if let Some(carried) = mount.carried(&recipe.name) {
                found.retain(|peer| peer.name != recipe.name);
                found.insert(0, carried);
            }
        }
        return Ok(found);
    }
    let mut chosen = Vec::new();
    for name in names {
        match mount.carried(name) {
            Some(own) => chosen.push(own),
            None => chosen.extend(peers::choose(std::slice::from_ref(name))?),
        }
    }
    Ok(chosen)
}

/// A quick run has no time for every allocator: those that are left out are named.
fn quick_peers() -> Vec<Peer> {
    let (chosen, left_out) = peers::choose_quick();
    if !left_out.is_empty() {
        crate::out::outln!(
            "left out, since this is a quick run (--peers names them): {}",
            left_out.join(", ")
        );
    }
    chosen
}

pub(crate) fn list_peers(mount: Mount, json: bool) {
    let listed = peer_table::list(peers::recipes(), mount);
    crate::out::outln!(
        "{}",
        if json { peer_table::json(&listed) } else { peer_table::draw(&listed) }
    );
}
