//! Tests of hints for the file of these tests: the rules of sites, and the report of invalid lines.

use super::ranges::RANGES;
use super::*;
use crate::region::Site;
use std::format;
use std::string::String;
use std::vec::Vec;

fn read(text: &str) -> (Hints, Vec<(usize, &'static str)>) {
    let text: &'static str = String::from(text).leak();
    let mut reported = Vec::new();
    let hints = Hints::read(text.as_bytes(), |line, why| reported.push((line, why))).unwrap();
    (hints, reported)
}

/// Returns the file of this test as a `module` line names it, an address of code, and its offset.
fn here() -> (String, usize, usize) {
    let site = here as *const () as usize;
    let mapped = module_of(site).unwrap();
    let id: String = mapped.build_id().iter().map(|byte| format!("{byte:02x}")).collect();
    let id = if id.is_empty() { String::from("-") } else { id };
    (format!("{id} {}", str::from_utf8(mapped.path()).unwrap()), site, mapped.offset)
}

fn rule(hints: &Hints, site: usize) -> Rule {
    hints.rule_of(Site::at(site), || Some(()), |_| panic!("it is this build"))
}

#[test]
fn sites_are_found_wherever_their_file_lies() {
    let (module, site, offset) = here();
    let (hints, reported) = read(&format!(
        "toft-hints 1\nothers together\nmodule 00ff /lib/other\nown {offset:#x}\nmodule {module}\n\
         own {offset:#x}\ngroup 7 {:#x}\n# end",
        offset + 5
    ));
    assert_eq!(reported, []);
    assert_eq!((hints.groups(), hints.own()), (8, Some(2)));
    assert_eq!(rule(&hints, site), Rule::Own);
    assert_eq!(rule(&hints, site + 5), Rule::Group(7));
    assert_eq!(rule(&hints, site + 6), Rule::Group(0));
    // The range is known now, so the mappings are not read again.
    let known = |site| hints.rule_of(site, || -> Option<()> { panic!("it is known") }, |_| {});
    assert_eq!(known(Site::at(site + 5)), Rule::Group(7));
    // An address in no file, and one in a file that no line names.
    let local = 0u64;
    assert_eq!(rule(&hints, (&raw const local).addr()), Rule::Group(0));
    assert_eq!(rule(&hints, libc::getpid as *const () as usize), Rule::Group(0));
    assert_eq!(rule(&hints, Site::of_token(7).address()), Rule::Own);
}

#[test]
fn without_leave_nobody_is_asked_and_nothing_is_remembered() {
    let (module, site, offset) = here();
    let (hints, _) = read(&format!("toft-hints 1\nmodule {module}\ngroup 1 {offset:#x}"));
    assert_eq!(hints.rule_of(Site::at(site), || None::<()>, |_| {}), Rule::Own, "others are own");
    assert_eq!(rule(&hints, site), Rule::Group(1));
}

#[test]
fn another_build_of_a_file_is_reported_once_and_not_followed() {
    let (module, site, offset) = here();
    let name = module.split_once(' ').unwrap().1;
    let (hints, _) =
        read(&format!("toft-hints 1\nothers together\nmodule 0102 {name}\nown {offset:#x}"));
    let mut reported = Vec::new();
    for _ in 0..2 {
        let rule = hints.rule_of(Site::at(site), || Some(()), |name| reported.push(name.to_vec()));
        assert_eq!(rule, Rule::Group(0));
    }
    assert_eq!(reported, [base_name(name.as_bytes()).to_vec()]);
    // Without a build-id only the name counts.
    let (hints, _) =
        read(&format!("toft-hints 1\nothers together\nmodule - {name}\nown {offset:#x}"));
    assert_eq!(rule(&hints, site), Rule::Own);
}

#[test]
fn what_is_not_understood_is_reported_and_the_rest_holds() {
    let (module, site, offset) = here();
    let (hints, reported) = read(&format!(
        "toft-hints 1\nown 0x12\nothers togther\nmodule {module}\nown 0x{{}}\n\n\u{0}\n\
         group 2 {offset:#x}\nown {offset:#x}\nothers together"
    ));
    let lines: Vec<usize> = reported.iter().map(|&(line, _)| line).collect();
    assert_eq!(lines, [2, 3, 5, 7], "{reported:?}");
    assert_eq!(reported[0].1, "no line `module` before it");
    assert_eq!(rule(&hints, site), Rule::Own, "the last line of a site counts");
    assert_eq!(rule(&hints, site + 1), Rule::Group(0));
}

#[test]
fn a_module_that_comes_twice_is_one() {
    let (module, site, offset) = here();
    let (hints, _) = read(&format!(
        "toft-hints 1\nothers together\nmodule {module}\nown {offset:#x}\nmodule 11 x\nmodule {module}\nown {:#x}",
        offset + 9
    ));
    assert_eq!((rule(&hints, site), rule(&hints, site + 9)), (Rule::Own, Rule::Own));
    assert_eq!(hints.entries.iter().filter(|entry| entry.module == 0).count(), 2);
}

/// A program waits until its hints are read.
#[test]
#[cfg_attr(miri, ignore = "it would take hours")]
fn many_modules_are_read_in_a_moment() {
    let (module, site, offset) = here();
    let mut text = format!("toft-hints 1\nothers together\nmodule {module}\nown {offset:#x}\n");
    (0..150_000).for_each(|number| text += &format!("module 0a /lib/{number}\n"));
    text += &format!("module {module}\nown {:#x}\n", offset + 9);
    let begin = std::time::Instant::now();
    let (hints, reported) = read(&text);
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
    assert_eq!((reported.len(), hints.entries.len()), (0, 2));
    assert_eq!((rule(&hints, site), rule(&hints, site + 9)), (Rule::Own, Rule::Own));
}

#[test]
fn code_beyond_what_can_be_remembered_is_looked_up_again() {
    let (module, site, offset) = here();
    let (hints, _) =
        read(&format!("toft-hints 1\nothers together\nmodule {module}\nown {offset:#x}"));
    for number in 0..RANGES {
        assert!(hints.ranges.unwrap().add((number, number + 1), 0, None));
    }
    for _ in 0..2 {
        assert_eq!(rule(&hints, site), Rule::Own);
    }
    assert!(!hints.ranges.unwrap().add((1, 2), 0, None));
}

#[test]
fn texts_that_are_none_of_hints_are_refused() {
    for text in ["", "\n", "toft-hints 3\n", "\u{7f}ELF", "own 0x12"] {
        assert!(Hints::read(text.as_bytes(), |_, _| {}).is_err(), "{text}");
    }
    // Every prefix of a valid text is accepted or refused, and nothing else happens.
    let text = "toft-hints 1\nothers together\nmodule 0a /x\nown 0x1\ngroup 2 0x2\n";
    for end in 0..text.len() {
        let text: &'static str = String::from(&text[..end]).leak();
        assert_eq!(Hints::read(text.as_bytes(), |_, _| {}).is_ok(), end >= 12, "{end}");
    }
}
