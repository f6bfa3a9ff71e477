//! Each option has an example that changes something, and values that are refused.

use super::{LimitTo, Options, Problem, Report, SiteMode, TABLE};
use crate::policy::{SECURE, WIPE};

#[test]
fn every_default_in_the_table_is_the_default_in_force() {
    for entry in TABLE.iter().filter(|entry| entry.default != "none") {
        let mut options = Options::DEFAULT;
        options.take(format!("{}={}", entry.name, entry.default).as_bytes()).unwrap();
        if entry.name == "TOFT_PARTITIONS" {
            // The requested value is remembered, and the same comes of it.
            let usual = Options::DEFAULT;
            assert_eq!(options.partitions_there_are(), usual.partitions_there_are());
            assert_eq!(options.is_exact(), usual.is_exact());
            (options.sites, options.partitions) = (SiteMode::Auto, 0);
        }
        assert_eq!(options, Options::DEFAULT, "{}", entry.name);
    }
}

/// One example at least for each option.
const EXAMPLES: &[&str] = &[
    "TOFT_PARTITIONS=5",
    "TOFT_PARTITIONS=exact",
    "TOFT_PARTITIONS=exact:5",
    "TOFT_WRAPPERS=xmalloc",
    "TOFT_WRAPPERS=c",
    "TOFT_RECLAIM=calls",
    "TOFT_DECAY=7",
    "TOFT_LIMIT=80%",
    "TOFT_COLD=60",
    "TOFT_HUGE=kernel",
    "TOFT_MAPPINGS=populate",
    "TOFT_MAPPINGS=lock",
    "TOFT_MAPPINGS=names,lock,populate",
    "TOFT_PKEY=1",
    "TOFT_SCOPE=program",
    "TOFT_REPORT_FD=7",
    "TOFT_REPORT=line",
    "TOFT_REPORT=/tmp/reports",
    "TOFT_REPORT=full,/tmp/reports",
    "TOFT_GUARDED=1",
    "TOFT_GUARDED=uninit",
    "TOFT_VERIFY=1",
    "TOFT_VERIFY=exit",
    "TOFT_LEAKS=1",
    "TOFT_PROFILE=/tmp/heap.toft",
    "TOFT_PROFILE_AT=signal:12",
    "TOFT_PROFILE_AT=growth:1g",
    "TOFT_PROFILE_AT=signal:12,growth:1g",
    "TOFT_STATS=1",
    "TOFT_DANGLING=1",
    "TOFT_DANGLING=2",
];

/// What the secure build tells, and does not need.
const NEEDLESS: &[&str] = &["TOFT_FILL=alloc", "TOFT_FILL=free"];

/// What the secure build tells, and does not do.
const WEAKER: &[&str] = &[
    "TOFT_ON_MISUSE=warn",
    "TOFT_ON_MISUSE=ignore",
    "TOFT_COMPACT=1",
    "TOFT_DEEPBIND=0",
    "TOFT_HINTS=/tmp/hints",
    "TOFT_SAMPLE=512k",
];

fn take(text: &str) -> (Result<(), Problem>, bool) {
    let mut options = Options::DEFAULT;
    let taken = options.take(text.as_bytes());
    (taken, options != Options::DEFAULT)
}

#[test]
fn every_option_changes_something_or_is_refused() {
    for text in EXAMPLES {
        assert!(matches!(take(text), (Ok(()), true)), "{text}");
    }
    for text in WEAKER.iter().chain(NEEDLESS) {
        let (taken, changed) = take(text);
        assert_eq!(changed, !SECURE, "{text}");
        assert_eq!(taken.is_err(), SECURE, "{text}");
        match taken {
            Ok(()) => {}
            Err(Problem::Needless(_)) => assert!(WIPE && NEEDLESS.contains(text), "{text}"),
            Err(problem) => {
                assert!(!(WIPE && NEEDLESS.contains(text)), "{text}");
                assert!(matches!(problem, Problem::Weaker(_)), "{text}");
            }
        }
    }
}

#[test]
fn every_option_has_an_example() {
    for entry in TABLE {
        let names = |text: &&str| text.split_once('=').unwrap().0 == entry.name;
        assert!(EXAMPLES.iter().chain(WEAKER).chain(NEEDLESS).any(names), "{}", entry.name);
    }
}

#[test]
fn sites_are_exact_where_that_is_asked_for_or_usual() {
    let of = |texts: &[&str]| {
        let mut options = Options::DEFAULT;
        texts.iter().for_each(|text| options.take(text.as_bytes()).unwrap());
        (options.is_exact(), options.partitions_there_are())
    };
    assert_eq!(of(&[]), if SECURE { (true, 2048) } else { (false, 64) });
    assert_eq!(of(&["TOFT_PARTITIONS=8"]), (false, 8));
    assert_eq!(of(&["TOFT_PARTITIONS=exact:8"]), (true, 8));
    assert_eq!(of(&["TOFT_PARTITIONS=exact:9"]), (true, 16));
    assert_eq!(of(&["TOFT_PARTITIONS=exact"]), (true, 2048));
    assert_eq!(of(&["TOFT_PARTITIONS=8", "TOFT_PARTITIONS=exact"]), (true, 2048));
    assert_eq!(of(&["TOFT_WRAPPERS=xmalloc"]), (true, 2048));
    assert_eq!(of(&["TOFT_WRAPPERS=xmalloc", "TOFT_PARTITIONS=64"]), (false, 64));
    assert_eq!(of(&["TOFT_WRAPPERS=xmalloc", "TOFT_PARTITIONS=exact:64"]), (true, 64));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn rust_is_looked_through_unless_something_else_was_chosen() {
    let with = |text: &str| {
        let mut options = Options::DEFAULT;
        options.take(text.as_bytes()).unwrap();
        let chosen = options;
        options.look_through_rust();
        (options.wrappers.is_some_and(|names| names.fit(b"__rust_alloc")), options == chosen)
    };
    assert_eq!(with("TOFT_DECAY=7"), (!SECURE, SECURE));
    for text in ["TOFT_WRAPPERS=xmalloc", "TOFT_PARTITIONS=64", "TOFT_PARTITIONS=exact"] {
        assert_eq!(with(text), (false, true), "{text}");
    }
    if !SECURE {
        assert_eq!(with("TOFT_HINTS=file"), (false, true));
    }
}

#[test]
fn mappings_are_a_list() {
    let of = |text: &str| {
        let mut options = Options::DEFAULT;
        options.take(format!("TOFT_MAPPINGS={text}").as_bytes()).unwrap();
        (options.prepopulate, options.mlock, options.names)
    };
    assert_eq!(of("populate"), (true, false, false));
    assert_eq!(of("lock"), (false, true, false));
    assert_eq!(of("names"), (false, false, true));
    assert_eq!(of("names,populate"), (true, false, true));
    assert_eq!(of("populate,lock,names,lock"), (true, true, true));
}

#[test]
fn profiles_are_written_at_a_signal_and_at_growth() {
    let of = |text: &str| {
        let mut options = Options::DEFAULT;
        options.take(format!("TOFT_PROFILE_AT={text}").as_bytes()).unwrap();
        (options.profile_signal, options.profile_growth)
    };
    assert_eq!(of("signal:12"), (12, 0));
    assert_eq!(of("growth:1g"), (0, 1 << 30));
    assert_eq!(of("growth:64k,signal:64"), (64, 64 << 10));
}

#[test]
fn guarded_blocks_may_report_reads_of_what_was_not_written() {
    let of = |text: &str| {
        let mut options = Options::DEFAULT;
        options.take(format!("TOFT_GUARDED={text}").as_bytes()).unwrap();
        (options.uninit, options.guarded)
    };
    assert_eq!(of("5000"), (false, 5000));
    assert_eq!(of("uninit"), (true, 1));
    assert_eq!(of("uninit:5000"), (true, 5000));
    assert_eq!(of("uninit:0"), (true, 0));
}

#[test]
fn reports_have_a_word_and_a_file() {
    let of = |text: &str| {
        let mut options = Options::DEFAULT;
        options.take(format!("TOFT_REPORT={text}").as_bytes()).unwrap();
        let file = options.report_file.map(|name| name.as_c_str().to_str().unwrap().to_owned());
        (options.report, file)
    };
    let file = |name: &str| Some(name.to_owned());
    assert_eq!(of("line"), (Report::Line, None));
    assert_eq!(of("/tmp/a,b"), (Report::Auto, file("/tmp/a,b")));
    assert_eq!(of("./full"), (Report::Auto, file("./full")));
    assert_eq!(of("full,/tmp/a,b"), (Report::Full, file("/tmp/a,b")));
    assert_eq!(of("auto,./a"), (Report::Auto, file("./a")));
}

/// The bounds that the table states are those that values are held to.
#[test]
fn stated_bounds_are_the_bounds() {
    let mut stated = 0;
    for entry in TABLE.iter().filter(|entry| entry.values.starts_with("a number from ")) {
        let words: Vec<&str> = entry.values.split([' ', ',']).collect();
        let [least, most] = [words[3], words[5]].map(|word| word.parse::<usize>().unwrap());
        let take = |n: usize| take(&format!("{}={n}", entry.name)).0.is_ok();
        assert!(take(least) && take(most) && !take(most + 1), "{}", entry.name);
        assert!(least == 0 || !take(least - 1), "{}", entry.name);
        stated += 1;
    }
    assert!(stated > 4);
}

/// The words that the table states are those that are taken.
#[test]
fn stated_words_are_the_words() {
    use super::table::{FILL, HUGE, LEAKS, MAPPINGS, ON_MISUSE, RECLAIM, REPORT, Words};
    fn of<T>(words: Words<T>) -> Vec<&'static str> {
        words.iter().map(|(word, _)| *word).collect()
    }
    for (name, words) in [
        ("TOFT_ON_MISUSE", of(ON_MISUSE)),
        ("TOFT_RECLAIM", of(RECLAIM)),
        ("TOFT_HUGE", of(HUGE)),
        ("TOFT_FILL", of(FILL)),
        ("TOFT_MAPPINGS", of(MAPPINGS)),
        ("TOFT_LEAKS", of(LEAKS)),
        ("TOFT_REPORT", of(REPORT)),
    ] {
        let entry = TABLE.iter().find(|entry| entry.name == name).unwrap();
        let (last, first) = words.split_last().unwrap();
        let stated = format!("{} or {last}", first.join(", "));
        assert!(entry.values.starts_with(&stated), "{name}: {stated}");
    }
}

#[test]
fn limits_are_bytes_or_a_share_of_what_there_is() {
    let limit = |text: &str, there_is: Option<usize>| {
        let mut options = Options::DEFAULT;
        options.take(format!("TOFT_LIMIT={text}").as_bytes()).unwrap();
        options.limit.bytes(|| there_is)
    };
    assert_eq!(limit("512m", None), 512 << 20);
    assert_eq!(limit("1048576", Some(1)), 1 << 20);
    assert_eq!(limit("1m", Some(1)), 1 << 20);
    assert_eq!(limit("80%", Some(1000)), 800);
    assert_eq!(limit("33%", Some(199)), 65);
    assert_eq!(limit("100%", Some(usize::MAX)), usize::MAX);
    assert_eq!(limit("1%", Some(usize::MAX)), usize::MAX / 100);
    assert_eq!(limit("80%", None), usize::MAX);
    assert_eq!(LimitTo::Nothing.bytes(|| Some(1)), usize::MAX);
}

#[test]
fn bad_values_and_names_are_told_and_change_nothing() {
    let mut options = Options::DEFAULT;
    for text in [
        "TOFT_PARTITIONS=0",
        "TOFT_PARTITIONS=4097",
        "TOFT_PARTITIONS=abc",
        "TOFT_PARTITIONS=",
        "TOFT_ON_MISUSE=log",
        "TOFT_SAMPLE=1x",
        "TOFT_SAMPLE=99999999999999999999",
        "TOFT_PARTITIONS=auto",
        "TOFT_PARTITIONS=exact:",
        "TOFT_PARTITIONS=exact:0",
        "TOFT_PARTITIONS=exact:4097",
        "TOFT_PARTITIONS=exact8",
        "TOFT_WRAPPERS=",
        "TOFT_WRAPPERS=xmalloc,",
        "TOFT_HINTS=",
        "TOFT_RECLAIM=never",
        "TOFT_DECAY=1s",
        "TOFT_DECAY=86400001",
        "TOFT_COMPACT=yes",
        "TOFT_LIMIT=0",
        "TOFT_LIMIT=0%",
        "TOFT_LIMIT=101%",
        "TOFT_LIMIT=%",
        "TOFT_LIMIT=1m%",
        // Bytes, where megabytes were meant.
        "TOFT_LIMIT=512",
        "TOFT_LIMIT=1023k",
        "TOFT_LIMIT=1048575",
        "TOFT_LIMIT=-1",
        "TOFT_LIMIT=1t",
        "TOFT_LIMIT=none",
        "TOFT_COLD=2592001",
        "TOFT_COLD=1m",
        "TOFT_HUGE=always",
        "TOFT_HUGE=dense",
        "TOFT_DEEPBIND=clear",
        "TOFT_MAPPINGS=",
        "TOFT_MAPPINGS=1",
        "TOFT_MAPPINGS=lock,",
        "TOFT_MAPPINGS=lock names",
        "TOFT_SCOPE=",
        "TOFT_STATS=2",
        "TOFT_REPORT_FD=-1",
        "TOFT_REPORT=some",
        "TOFT_LEAKS=2",
        "TOFT_PROFILE=",
        "TOFT_PROFILE_AT=",
        "TOFT_PROFILE_AT=12",
        "TOFT_PROFILE_AT=signal:0",
        "TOFT_PROFILE_AT=signal:65",
        "TOFT_PROFILE_AT=growth:0",
        "TOFT_PROFILE_AT=growth:much",
        "TOFT_PROFILE_AT=signal:12,",
        "TOFT_FILL=1",
        "TOFT_VERIFY=often",
        "TOFT_DANGLING=exit",
        "TOFT_GUARDED=-1",
        "TOFT_GUARDED=1000000001",
        "TOFT_GUARDED=uninit:",
        "TOFT_GUARDED=uninit:1000000001",
        "TOFT_GUARDED=uninit8",
        "TOFT_REPORT=",
        "TOFT_REPORT=full,",
        "TOFT_REPORT=full,reports",
        "TOFT_REPORT=fulll,reports",
    ] {
        let problem = options.take(text.as_bytes());
        assert!(matches!(problem, Err(Problem::BadValue(_))), "{text}");
    }
    assert!(matches!(options.take(b"TOFT_FOO=1"), Err(Problem::Unknown)));
    assert!(options.take(b"PATH=/bin").is_ok() && options.take(b"TOFT=1").is_ok());
    assert_eq!(options, Options::DEFAULT);
}

/// Options that change nothing beside the others are named, and no others.
#[test]
fn options_without_effect_are_named() {
    let named = |variables: &[&str]| {
        let mut options = Options::DEFAULT;
        for variable in variables {
            options.take(variable.as_bytes()).unwrap();
        }
        let mut names = std::vec::Vec::new();
        options.for_each_idle(|name, why| names.push(std::format!("{name} {why}")));
        names
    };
    let with =
        |reclaim| named(&["TOFT_PROFILE_AT=signal:12", "TOFT_DECAY=7", "TOFT_COLD=60", reclaim]);
    let (at, decay) = ("TOFT_PROFILE_AT without TOFT_PROFILE", "TOFT_DECAY with TOFT_RECLAIM=off");
    for reclaim in ["TOFT_RECLAIM=auto", "TOFT_RECLAIM=thread"] {
        assert_eq!(with(reclaim), [at]);
    }
    assert_eq!(with("TOFT_RECLAIM=calls"), [at, "TOFT_COLD with TOFT_RECLAIM=calls"]);
    assert_eq!(with("TOFT_RECLAIM=off"), [at, decay, "TOFT_COLD with TOFT_RECLAIM=off"]);
    for fine in ["TOFT_RECLAIM=off", "TOFT_RECLAIM=calls"] {
        assert!(named(&[fine, "TOFT_PROFILE=f", "TOFT_PROFILE_AT=growth:1m"]).is_empty());
    }
}
