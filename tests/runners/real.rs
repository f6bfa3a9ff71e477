//! The scripts of `programs/`, each a test: libc and Toft must give the same output.
//!
//! | variable | what |
//! |---|---|
//! | `TOFT_REAL_PEERS` | the allocators beside libc, with commas; the library under test if not set |
//! | `TOFT_REAL_ROUNDS` | runs on each allocator, in turn; 1 if not set |
//! | `TOFT_REAL_TIMES` | the requests, as a multiple of those of a quick run; 1 if not set |
//! | `TOFT_REAL_PAGE` | the file to write the figures to |

use libtest_mimic::{Arguments, Trial};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use toft_bench::peers::{Peer, choose};
use toft_tests::library::{Library, library};
use toft_tests::need::is_optional;
use toft_tests::programs::labels;
use toft_tests::programs::page::{Row, page, section, with_section};
use toft_tests::programs::run::{is_toft, run};
use toft_tests::programs::{Script, scripts};
use toft_tests::trials::{self, trial};

/// What is run, and how often.
struct Plan {
    /// The first one is libc.
    peers: Vec<Peer>,
    rounds: u32,
    times: u32,
    page: Option<PathBuf>,
}

fn plan() -> Result<Plan, String> {
    let number = |name: &str| match std::env::var(name) {
        Ok(text) => text.parse::<u32>().map_err(|e| format!("{name}={text}: {e}")),
        Err(_) => Ok(1),
    };
    let mut peers = choose(&["glibc".to_owned()])?;
    match std::env::var("TOFT_REAL_PEERS") {
        Ok(names) => peers.extend(choose(&names.split(',').map(Into::into).collect::<Vec<_>>())?),
        Err(_) => peers.extend(match library() {
            Library::Toft(path) => Some(Peer {
                name: "toft".into(),
                library: Some(path.clone()),
                version: String::new(),
            }),
            Library::Libc => None,
        }),
    }
    let page = std::env::var_os("TOFT_REAL_PAGE").map(PathBuf::from);
    Ok(Plan { peers, rounds: number("TOFT_REAL_ROUNDS")?, times: number("TOFT_REAL_TIMES")?, page })
}

/// Runs a script on every allocator, in turn. Only Toft's failures and libc's are the test's.
fn measure(script: &Script, plan: &Plan) -> (Row, Result<(), String>) {
    let mut row = Row::default();
    let mut wrong = Ok(());
    for _ in 0..plan.rounds {
        let plain = match run(script, &plan.peers[0], plan.times) {
            Ok(plain) => plain,
            Err(why) => return (row, Err(why)),
        };
        if let Err(why) = plain.check_plain(script) {
            return (row, Err(why));
        }
        row.figures.entry(plan.peers[0].name.clone()).or_default().push(plain.figures);
        for peer in &plan.peers[1..] {
            let ran = run(script, peer, plan.times).and_then(|ran| {
                ran.check(script, peer, &plain)?;
                Ok(ran.figures)
            });
            match ran {
                Ok(figures) => row.figures.entry(peer.name.clone()).or_default().push(figures),
                Err(why) => {
                    let first = why.lines().next().unwrap_or_default().to_owned();
                    row.failed.entry(peer.name.clone()).or_insert(first);
                    if is_toft(peer) && wrong.is_ok() {
                        wrong = Err(why);
                    }
                }
            }
        }
    }
    for name in row.failed.keys() {
        // Some rounds are no figure.
        row.figures.remove(name);
    }
    (row, wrong)
}

fn main() {
    let mut arguments = Arguments::from_args();
    let plan = match plan() {
        Ok(plan) => Arc::new(plan),
        Err(why) => {
            eprintln!("{why}");
            std::process::exit(2);
        }
    };
    if plan.page.is_some() {
        // One after the other: what is measured must not meet another.
        arguments.test_threads = Some(1);
    }
    let rows: Arc<Mutex<BTreeMap<String, Row>>> = Arc::default();
    let mut left_out = Vec::new();
    let mut trials: Vec<Trial> = Vec::new();
    for script in scripts().unwrap_or_else(|why| {
        eprintln!("{why}");
        std::process::exit(2)
    }) {
        let missing = script.missing();
        if !missing.is_empty() {
            let leave = if missing.iter().all(|package| is_optional(package)) {
                trials::left_out
            } else {
                trials::without
            };
            let missing = missing.join(", ");
            left_out.push(format!("{}: needs Debian package {missing}", script.name));
            trials.push(leave(&script.name, &missing));
            continue;
        }
        let (plan, rows) = (plan.clone(), rows.clone());
        trials.push(trial(script.name.clone(), move || {
            let (row, wrong) = measure(&script, &plan);
            rows.lock().expect("no trial panics with it").insert(script.name, row);
            wrong
        }));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Some(path) = &plan.page {
        let rows = rows.lock().expect("no trial panics with it");
        let mut text = page(&rows, &plan.peers, &left_out, plan.rounds);
        // `cargo xtask labels` writes this section.
        if let Some(labels) = std::fs::read_to_string(path)
            .ok()
            .and_then(|old| section(&old, labels::TITLE).map(str::to_owned))
        {
            text = with_section(&text, labels::TITLE, &labels);
        }
        if let Err(why) = std::fs::write(path, text) {
            eprintln!("{}: {why}", path.display());
            std::process::exit(2);
        }
    }
    conclusion.exit()
}
