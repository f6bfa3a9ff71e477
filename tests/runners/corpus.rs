//! The corpus of misuse on the library under test: every case has the verdict that its program
//! says, with the exact message, and every program without its fault ends well and in silence.

use libtest_mimic::Trial;
use std::sync::Arc;
use std::time::Duration;
use toft_bench::misuse::class::{Class, classes, parse};
use toft_bench::misuse::programs::Programs;
use toft_bench::misuse::{deviations, jobs, verdict::Ending};
use toft_bench::mount::{LIGHT, SECURE};
use toft_bench::peers::Peer;
use toft_tests::library::{Build, Library, build_under_test, library, scratch_dir};
use toft_tests::trials::{main as run, trial};

const TIMEOUT: Duration = Duration::from_secs(300);

/// The library as the corpus knows it.
fn peer() -> Peer {
    let library = library().path();
    let name = match build_under_test() {
        _ if library.is_none() => "libc",
        Build::Secure => SECURE,
        Build::Light => LIGHT,
        Build::Default => "toft",
    };
    Peer { name: name.into(), library: library.map(Into::into), version: String::new() }
}

fn judged(class: &Class, programs: &Programs) -> Vec<String> {
    let (peers, cases) = ([peer()], [(class, class.cases())]);
    let jobs = jobs(&cases, &peers);
    let tried: Vec<_> = jobs.iter().map(|job| job.run(programs, TIMEOUT)).collect();
    let mut wrong = deviations(&jobs, &tried);
    // On the C library's own malloc it is asked only whether the programs are programs.
    for (job, tried) in jobs.iter().zip(&tried).filter(|_| library() == &Library::Libc) {
        wrong.extend(tried.twin.clone().err().map(|how| format!("twin ({}): {how}", job.case)));
        let failed = tried.runs.iter().filter(|(ending, _)| matches!(ending, Ending::Failed(_)));
        wrong.extend(failed.map(|(ending, _)| format!("{}: {ending:?}", job.case)));
    }
    wrong
}

fn held(class: &Class, programs: &Programs) -> Result<(), String> {
    let wrong = judged(class, programs);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// A class whose program says something wrong of Toft, a message or a verdict, is found out in
/// every case.
fn planted(programs: &Programs) -> Result<(), String> {
    for line in ["caught inside", "prevented", "missed", "late double-free", "caught SIGSEGV"] {
        let text = format!(
            "// class: 11 Free a small block twice\n// sizes: 24 1000\n// variants: first\n// toft: {line}\n\
             // secure: {line}\n"
        );
        let class = parse("double-free.c", &text)?.remove(0);
        let wrong = judged(&class, programs);
        if wrong.len() != class.cases().len() || !wrong[0].contains("toft: double free: ") {
            return Err(format!("expecting {line} was found wrong in {wrong:?}"));
        }
    }
    Ok(())
}

fn main() {
    let classes = classes();
    let programs = match Programs::build(&scratch_dir("corpus"), &classes) {
        Ok(programs) => Arc::new(programs),
        Err(error) => run(vec![trial("compile", || Err(error))]),
    };
    let mut trials: Vec<Trial> = classes
        .into_iter()
        .map(|class| {
            let programs = Arc::clone(&programs);
            let name = format!("{:02}_{}", class.number, class.source.trim_end_matches(".c"));
            trial(name, move || held(&class, &programs))
        })
        .collect();
    if library() != &Library::Libc {
        trials.push(trial("a_wrong_expectation_is_found_out", move || planted(&programs)));
    }
    run(trials)
}
