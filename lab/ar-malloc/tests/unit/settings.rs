//! Unit tests of `src/settings.rs`, which use what is private to it.

use super::*;

fn of(set: &[(&CStr, &'static str)]) -> Result<Settings, BadValue> {
    let value = |name: &CStr| set.iter().find(|one| one.0 == name).map(|one| one.1.as_bytes());
    Settings::read(value)
}

#[test]
fn each_variable_sets_its_parameter() {
    assert_eq!(of(&[]), Ok(Settings::ARTICLE));
    let all = [
        (c"TOFT_AR_ARENAS", "16"),
        (c"TOFT_AR_LOCK", "class"),
        (c"TOFT_AR_CACHE", "on"),
        (c"TOFT_AR_STATS", "on"),
    ];
    let read = of(&all);
    let set = Settings { arenas: 16, locks: Locks::Class, cache: true, stats: true };
    assert_eq!(read, Ok(set));
    for locks in Locks::ALL {
        assert_eq!(of(&[(c"TOFT_AR_LOCK", locks.word())]).unwrap().locks, locks);
    }
}

#[test]
fn a_value_that_is_none_is_named() {
    let bad = [("0", ""), ("17", ""), ("-1", ""), ("", "x"), ("", "Arena")];
    for (arenas, lock) in bad {
        let (name, value) =
            if lock.is_empty() { (c"TOFT_AR_ARENAS", arenas) } else { (c"TOFT_AR_LOCK", lock) };
        assert_eq!(of(&[(name, value)]).unwrap_err().0, name);
    }
    for name in [c"TOFT_AR_CACHE", c"TOFT_AR_STATS"] {
        assert_eq!(of(&[(name, "1")]), Err((name, "on or off")));
        assert!(of(&[(name, "off")]).is_ok());
    }
}
