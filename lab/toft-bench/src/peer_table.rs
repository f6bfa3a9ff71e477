//! The list of the peers: what each is, whether it is there, and how to get it.

use crate::grid::Grid;
use crate::mount::Mount;
use crate::peers::Recipe;
use crate::releases::released;
use serde::Serialize;

/// A peer as the list shows it.
#[derive(Debug, Serialize)]
pub struct Listed {
    pub name: String,
    /// Whether a process can be started on it here and now.
    pub installed: bool,
    pub version: Option<String>,
    pub released: Option<&'static str>,
    /// Its library; the system's malloc has none.
    pub library: Option<String>,
    /// `system`, `workspace`, `package` or `crate`.
    pub kind: &'static str,
    /// Only compared when it is asked for by name.
    pub extra: bool,
    /// How to get it, or why it cannot be had.
    pub how: String,
    pub licence: String,
}

/// Looks for each of the peers, first among those that are carried.
pub fn list(recipes: &[Recipe], mount: Mount) -> Vec<Listed> {
    recipes
        .iter()
        .map(|recipe| {
            let found = mount.carried(&recipe.name).or_else(|| recipe.find().ok());
            let library = found.as_ref().and_then(|peer| peer.library.as_ref());
            Listed {
                name: recipe.name.clone(),
                installed: found.is_some(),
                library: library.map(|path| path.display().to_string()),
                released: found.as_ref().map(released),
                version: found.map(|peer| peer.version),
                kind: recipe.kind(),
                extra: recipe.extra,
                how: recipe.how(),
                licence: recipe.licence.clone(),
            }
        })
        .collect()
}

pub fn draw(listed: &[Listed]) -> String {
    let head = "peer,installed,version,released,kind,by default,how to get it,licence";
    let mut table = Grid::new(8, head.split(','));
    let word = |is: bool| if is { "yes" } else { "no" };
    for peer in listed {
        table.push([
            peer.name.as_str(),
            word(peer.installed),
            peer.version.as_deref().unwrap_or("-"),
            peer.released.unwrap_or("-"),
            peer.kind,
            word(!peer.extra),
            &peer.how,
            &peer.licence,
        ]);
    }
    table.to_string()
}

pub fn json(listed: &[Listed]) -> String {
    serde_json::to_string_pretty(listed).expect("strings and truth values alone")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipes() -> Vec<Recipe> {
        ["name = \"here\"\nlicence = \"LGPL-2.1-or-later\"\nsystem = true",
            "name = \"away\"\nlicence = \"MIT\"\nextra = true\n[library]\npackage = \"libaway9\"\npaths = [\"/nowhere/libaway.so\"]"]
        .map(|text| toml::from_str(text).unwrap())
        .into()
    }

    #[test]
    fn the_table_has_each_peer_with_how_to_get_it_and_its_licence() {
        let table = draw(&list(&recipes(), Mount::default()));
        let row = |name: &str| {
            let start = format!("| {name} ");
            table.lines().find(|line| line.starts_with(&start)).unwrap().to_owned()
        };
        for part in [" yes ", "system", "LGPL-2.1-or-later"] {
            assert!(row("here").contains(part), "{table}");
        }
        for part in [" no ", "package", "apt-get install libaway9", "MIT"] {
            assert!(row("away").contains(part), "{table}");
        }
    }
}
