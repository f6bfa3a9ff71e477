//! How the bench is part of a program, which may carry libraries inside itself, and which
//! allocators are compared.

use crate::peer_settings::of_carried;
use crate::peer_table;
use crate::peers::{self, Peer};

/// What the secure build is called as a peer.
pub const SECURE: &str = "toft-secure";
/// What the light secure build is called.
pub const LIGHT: &str = "toft-secure-light";

/// The program that the bench is part of.
#[derive(Clone, Copy, Default)]
pub struct Mount<'a> {
    /// The words that stand before `work` where that program starts itself on a workload.
    pub prefix: &'static [&'static str],
    /// The libraries that the program carries inside itself, which are then the peers of their
    /// names.
    pub carried: &'a [&'a dyn Carried],
}

/// A library that a program carries.
pub trait Carried {
    /// The peer's name.
    fn name(&self) -> &str;

    /// The library as a file, from the first time on that it is asked for.
    ///
    /// # Errors
    /// There is no place for it.
    fn peer(&self) -> Result<Peer, String>;
}

impl Mount<'_> {
    /// What is carried of this name, with the variables that it says.
    pub(crate) fn carried(&self, name: &str) -> Option<Result<Peer, String>> {
        self.carried.iter().find_map(|carried| of_carried(name, *carried))
    }
}

/// The peers that are asked for. A library that the program carries takes the place of one that
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
                found.insert(0, carried?);
            }
        }
        return Ok(found);
    }
    let mut chosen = Vec::new();
    for name in names {
        match mount.carried(name) {
            Some(own) => chosen.push(own?),
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

pub(crate) fn list_peers(mount: Mount, json: bool) -> Result<u8, String> {
    let listed = peer_table::list(peers::recipes(), mount)?;
    crate::out::outln!(
        "{}",
        if json { peer_table::json(&listed) } else { peer_table::draw(&listed) }
    );
    Ok(0)
}
