//! The scripts of `labels/`: which functions do profiles of real programs name?
//!
//! The arguments name the programs to run; all are run if none is named. `TOFT_REAL_PAGE` is the
//! page whose section is written.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use toft_tests::programs::labels::{measure, programs, write};

fn main() -> ExitCode {
    match run() {
        Ok(failed) if failed == 0 => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("{failed} failed");
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

/// Returns the number of programs that did not run.
fn run() -> Result<usize, String> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let programs = programs()?;
    if let Some(name) = named.iter().find(|name| programs.iter().all(|p| p.script.name != **name)) {
        return Err(format!("no program {name} in tests/labels"));
    }
    let (mut rows, mut failed) = (BTreeMap::new(), 0);
    for program in &programs {
        let name = &program.script.name;
        if !named.is_empty() && !named.contains(name) {
            continue;
        }
        let missing = program.script.missing();
        let row = if missing.is_empty() {
            measure(program)
        } else {
            Err(format!("{name} needs Debian package {}", missing.join(", ")))
        };
        match row {
            Ok(row) => _ = rows.insert(name.clone(), (program, row)),
            Err(why) => {
                eprintln!("{why}");
                failed += 1;
            }
        }
    }
    if let Some(page) = std::env::var_os("TOFT_REAL_PAGE").filter(|_| failed == 0) {
        write(Path::new(&page), &rows)?;
    }
    Ok(failed)
}
