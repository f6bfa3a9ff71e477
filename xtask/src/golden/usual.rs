//! The code that every program runs, and what larger ones run, too: each is side by side in both
//! libraries (`crates/toft-preload/usual.ld`). Whether each pattern there names something that is
//! in one of them, and how much code that is.

use crate::secure::{self, Strength};
use crate::{files, place};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use std::path::Path;

/// Where the patterns are.
const SCRIPT: &str = "crates/toft-preload/usual.ld";
/// The sections of the code that they name, and the most bytes of each: the kernel maps 64 KiB of a
/// file at a time. The default build has less than two such pieces of either; the secure ones have
/// more code.
const SECTIONS: [(&str, u64); 2] = [(".text.usual", 140 << 10), (".text.often", 2 * (64 << 10))];

/// What is in these sections of one library.
struct Usual {
    library: String,
    bytes: [u64; SECTIONS.len()],
    names: Vec<String>,
}

impl Usual {
    fn read(path: &Path) -> Result<Usual, String> {
        let said = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let bytes = std::fs::read(path).map_err(|e| said(&e))?;
        let file = object::File::parse(&*bytes).map_err(|e| said(&e))?;
        let mut usual =
            Usual { library: files::name(path), bytes: Default::default(), names: Vec::new() };
        for ((name, _), bytes) in SECTIONS.iter().zip(&mut usual.bytes) {
            let section = file
                .section_by_name(name)
                .ok_or_else(|| said(&format!("no {name}: by what linker?")))?;
            *bytes = section.size();
            let within = section.address()..section.address() + section.size();
            let symbols = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
            let symbols = symbols.filter(|symbol| within.contains(&symbol.address()));
            usual.names.extend(symbols.filter_map(|symbol| symbol.name().ok().map(String::from)));
        }
        Ok(usual)
    }
}

/// Checks both libraries, of which the default one is built; returns what is wrong.
pub fn check() -> Result<Vec<String>, String> {
    let script = files::read(&place::root().join(SCRIPT))?;
    let secure = secure::build(Strength::Full)?;
    let libraries = [Usual::read(&secure.with_file_name("libtoft.so"))?, Usual::read(&secure)?];
    for usual in &libraries {
        let [usually, later] = usual.bytes.map(|bytes| bytes.div_ceil(1024));
        println!("{}: {usually} KiB of code are run by all, {later} are run often", usual.library);
    }
    Ok(wrong(&script, &libraries))
}

fn wrong(script: &str, libraries: &[Usual]) -> Vec<String> {
    let names = || libraries.iter().flat_map(|usual| &usual.names);
    let dead = patterns(script).filter(|pattern| !names().any(|name| fits(pattern, name)));
    let dead = dead.map(|pattern| format!("{SCRIPT}: {pattern} is nothing that is there"));
    let large = libraries.iter().flat_map(|usual| {
        let parts = SECTIONS.iter().zip(usual.bytes).filter(|((_, most), bytes)| bytes > most);
        parts.map(|((name, _), _)| format!("{}: too much code in {name}", usual.library))
    });
    dead.chain(large).collect()
}

/// The patterns of a linker script: they stand within brackets, behind a star.
fn patterns(script: &str) -> impl Iterator<Item = &str> {
    let lists = script.split("*(").skip(1).filter_map(|rest| rest.split_once(')'));
    lists.flat_map(|(list, _)| list.split_whitespace())
}

/// Whether a function is in a section that a pattern with stars names. The compiler calls that
/// after it, and says so of one that is cold.
fn fits(pattern: &str, name: &str) -> bool {
    let matches = |section: &str| {
        let (mut rest, mut parts) = (section, pattern.split('*'));
        let first = parts.next().unwrap_or_default();
        let Some(behind) = rest.strip_prefix(first) else { return false };
        rest = behind;
        let parts: Vec<_> = parts.collect();
        let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
        for part in between {
            let Some((_, behind)) = rest.split_once(part) else { return false };
            rest = behind;
        }
        rest.ends_with(last)
    };
    matches(&format!(".text.{name}")) || matches(&format!(".text.unlikely.{name}"))
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_names_code_that_is_there_and_it_is_not_much() {
        super::super::library().unwrap();
        assert_eq!(check().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_pattern_of_nothing_and_too_much_code_are_found() {
        let usual = |bytes: [u64; 2]| Usual {
            library: "a.so".into(),
            bytes,
            names: vec!["malloc".into(), "_ZN4toft3one17h0E".into()],
        };
        let script =
            "/* all */ S { .text.usual : { *(.text.malloc .text*3one17h*)\n*(.text*3two*) } }";
        let dead = format!("{SCRIPT}: .text*3two* is nothing that is there");
        let [usually, later] = SECTIONS.map(|(_, most)| most);
        assert_eq!(wrong(script, &[usual([usually, later])]), [dead.as_str()]);
        let large = wrong(script, &[usual([usually + 1, later]), usual([0, later + 1])]);
        let said = ["a.so: too much code in .text.usual", "a.so: too much code in .text.often"];
        assert_eq!(large, [dead.as_str(), said[0], said[1]]);
        assert!(fits(".text*4toft*3one17h*", "_ZN4toft3one17h0E"));
        assert!(!fits(".text*3one*4toft*", "_ZN4toft3one17h0E"));
        assert!(!fits(".text.malloc", "malloc_at") && !fits(".text*one", "_ZN4toft3one17h0E"));
    }
}
