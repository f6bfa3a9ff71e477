//! The scripts of `programs/`, each a test.

use libtest_mimic::Trial;
use toft_tests::programs::{Script, compare, scripts};
use toft_tests::trials::{main as run, trial, without};

fn of_script(script: Script) -> Trial {
    let missing = script.missing().join(", ");
    let name = script.name.clone();
    if missing.is_empty() {
        trial(name, move || compare(&script))
    } else {
        without(&name, &missing)
    }
}

fn main() {
    run(match scripts() {
        Ok(scripts) => scripts.into_iter().map(of_script).collect(),
        Err(e) => vec![trial("scripts", move || Err(e))],
    })
}
