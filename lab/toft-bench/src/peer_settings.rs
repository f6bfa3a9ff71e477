//! The variables that are set where a peer runs: those of its file, and those that its name asks
//! for.

use crate::peers::{Peer, recipe};

impl Peer {
    /// Names and values of variables, in the order in which they are set. First are those of the
    /// file in `peers/` that its plain name belongs to, also when it was brought along as
    /// `name=/path/of/a/library.so`. Then follow all those of `name@VARIABLE:VALUE`.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        let asked = self.name.split('@').skip(1).filter_map(|setting| setting.split_once(':'));
        of_the_file(plain(&self.name)).chain(asked)
    }
}

/// A peer's name without the variables behind it.
pub fn plain(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

/// The peer called `name` when it is `carried`, or that one with other variables: no other library
/// of the same name is measured then.
pub fn of_carried(name: &str, carried: &Peer) -> Option<Peer> {
    let own = plain(name) == carried.name || is_of(name, &carried.name);
    (own && !name.contains('=')).then(|| Peer { name: name.to_owned(), ..carried.clone() })
}

/// Whether the peer called `name` is another way to run the library of `base`.
pub fn is_of(name: &str, base: &str) -> bool {
    recipe(plain(name)).is_some_and(|recipe| recipe.of.as_deref() == Some(base))
}

fn of_the_file(name: &str) -> impl Iterator<Item = (&str, &str)> {
    let variables = recipe(name).into_iter().flat_map(|recipe| &recipe.environment);
    variables.map(|(variable, value)| (variable.as_str(), value.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mount::{Mount, choose_peers, take_carried};
    use crate::peers::choose;
    use std::ffi::OsString;
    use std::path::PathBuf;

    fn one(name: &str) -> Result<Peer, String> {
        choose(&[name.to_owned()]).map(|mut peers| peers.remove(0))
    }

    fn set(name: &str, library: Option<&str>) -> Vec<(String, String)> {
        let library = library.map(PathBuf::from);
        let peer = Peer { name: name.into(), library, version: String::new() };
        peer.settings().map(|(variable, value)| (variable.into(), value.into())).collect()
    }

    fn pair(variable: &str, value: &str) -> (String, String) {
        (variable.to_owned(), value.to_owned())
    }

    #[test]
    fn a_name_may_ask_for_variables() {
        let peer = one("glibc@A:1@B_C:x:y").unwrap();
        assert_eq!(peer.settings().collect::<Vec<_>>(), [("A", "1"), ("B_C", "x:y")]);
        assert_eq!((peer.name.as_str(), peer.library), ("glibc@A:1@B_C:x:y", None));
        let brought = one("mine@A:1=/bin/sh").unwrap();
        assert_eq!(brought.settings().collect::<Vec<_>>(), [("A", "1")]);
        assert!(brought.library.is_some());
        assert_eq!(one("glibc").unwrap().settings().count(), 0);
        assert!(one("glibc@A").unwrap_err().contains("A is not"));
        assert!(one("nobody@A:1").unwrap_err().contains("nobody"));
    }

    #[test]
    fn a_file_may_say_which_variables_are_set_and_a_name_comes_after_it() {
        let background = pair("MALLOC_CONF", "background_thread:true");
        assert_eq!(set("jemalloc-bg", None), [background]);
        assert_eq!(set("toft-calls", None), [pair("TOFT_RECLAIM", "calls")]);
        let off = pair("TOFT_RECLAIM", "off");
        assert_eq!(set("toft-off", Some("/a/libtoft.so")), std::slice::from_ref(&off));
        let two = [off, pair("TOFT_PARTITIONS", "1")];
        assert_eq!(set("toft-off@TOFT_PARTITIONS:1", None), two);
        assert!(set("toft", None).is_empty() && set("toft-of", None).is_empty());
    }

    /// The variable reaches the process, beside the library of the peer that it is of.
    #[test]
    fn a_process_on_such_a_peer_sees_the_variable() {
        let peer = Peer::without_library("toft-off", "");
        let mut command = crate::child::on_peer(&peer, "sh");
        command.args(["-c", "echo $TOFT_RECLAIM $MALLOC_CONF"]);
        assert_eq!(command.output().unwrap().stdout, b"off\n");
    }

    #[test]
    fn what_is_of_a_carried_library_is_that_library() {
        let words = "--carries toft /carried/toft 7 --carries toft-secure /carried/toft-secure 7 \
                     --quick --carries";
        let mut words: Vec<_> = words.split_whitespace().map(OsString::from).collect();
        let carried = take_carried(&mut words);
        assert_eq!(words, ["--quick", "--carries"]);
        let mount = Mount::of(&carried);
        for (name, library) in [
            ("toft", "/carried/toft"),
            ("toft-off", "/carried/toft"),
            ("toft@A:1", "/carried/toft"),
            ("toft-calls@A:1", "/carried/toft"),
            ("toft-secure", "/carried/toft-secure"),
            ("toft-secure@A:1", "/carried/toft-secure"),
        ] {
            let peer = mount.carried(name).unwrap();
            assert_eq!((peer.name.as_str(), peer.library), (name, Some(library.into())));
        }
        for name in ["glibc", "jemalloc-bg", "toft=/other.so", "toft-off=/other.so", "toft2"] {
            assert!(mount.carried(name).is_none(), "{name}");
        }
        // Who names none gets those alone that are compared by default.
        let chosen = choose_peers(&[], false, mount).unwrap();
        let from = |name: &str| chosen.iter().find(|peer| peer.name == name);
        assert_eq!(from("toft").unwrap().library, Some("/carried/toft".into()));
        assert!(from("toft-secure").is_none());
    }
}
