//! The messages about the target before it is started, which processes will get the library, and
//! what may kill the target.

use super::Run;
use crate::verb::{End, Failure, NOT_FOUND, REFUSED, message, print};
use crate::vet::{Effect, Vetted};
use serde_json::json;
use std::env;
use std::ffi::OsString;

/// Which processes get the library.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The program alone: a library that leaks into every child is the commonest complaint about
    /// preloading.
    Program,
    /// And all it starts, as asked for.
    Children,
    /// And all it starts, because it is nothing but a starter.
    Starter(&'static str),
}

impl Scope {
    pub(super) fn word(self) -> &'static str {
        if self == Scope::Program { "program" } else { "children" }
    }
}

pub(super) fn scope(run: &Run, stated: Option<OsString>, vetted: &Vetted) -> Scope {
    match (stated, vetted.starter) {
        _ if run.children => Scope::Children,
        (Some(text), _) if text == "children" => Scope::Children,
        (Some(_), _) | (None, None) => Scope::Program,
        (None, Some(why)) => Scope::Starter(why),
    }
}

/// Ends a run of which the target is missing.
pub(super) fn target_missing(run: &Run, missing: Failure) -> End {
    if !run.dry_run || !run.json {
        return Err(missing);
    }
    let kind = if missing.status == NOT_FOUND { "not-found" } else { "not-executable" };
    let finding = json!({"kind": kind, "text": missing.message, "effect": "refuse"});
    let program = run.program.to_string_lossy();
    let object = json!({"program": program, "starts": false, "findings": [finding]});
    print(format!("{object}\n"))?;
    Ok(missing.status)
}

/// Prints the findings, a line each.
pub(super) fn print_findings(vetted: &Vetted, scope: Scope, force: bool) {
    for finding in &vetted.findings {
        let end = match (finding.effect, force) {
            (Effect::Refuse, false) => "; not started (--force starts it anyway)",
            (Effect::Refuse, true) => "; started anyway, as --force asks",
            (Effect::Warn, _) => "",
        };
        let of = finding.of.as_deref().unwrap_or(&vetted.target.binary);
        message(&format!("{} {}: {}{end}", of.display(), finding.what, finding.so));
        if finding.effect == Effect::Refuse {
            // What else there is to say does not matter any more.
            return;
        }
    }
    if let Scope::Starter(why) = scope {
        let keep = "--env TOFT_SCOPE=program limits Toft to it";
        message(&format!(
            "{} {why}: what it starts runs on Toft too ({keep})",
            vetted.target.named.display()
        ));
    }
}

pub(super) fn dry_run(run: &Run, vetted: &Vetted, scope: Scope, refused: bool) -> End {
    let status = if refused { REFUSED } else { 0 };
    if run.json {
        let findings: Vec<_> = vetted
            .findings
            .iter()
            .map(|finding| {
                let effect = if finding.effect == Effect::Refuse { "refuse" } else { "warn" };
                let text = format!("{}: {}", finding.what, finding.so);
                json!({"kind": finding.kind, "text": text, "effect": effect})
            })
            .collect();
        let object = json!({
            "program": vetted.target.named.to_string_lossy(),
            "binary": vetted.target.binary.to_string_lossy(),
            "scope": scope.word(),
            "starts": !refused,
            "findings": findings,
        });
        print(format!("{object}\n"))?;
        return Ok(status);
    }
    print_findings(vetted, scope, run.force);
    if !refused {
        message(&format!("{} would be started on Toft", vetted.target.named.display()));
    }
    Ok(status)
}

/// Returns how a block of Toft's may reach a C library's own `free`, which ends the program.
pub(super) fn crossing(run: &Run, vetted: &Vetted) -> Option<&'static str> {
    const NAME: &str = "TOFT_DEEPBIND";
    let set = run.env.iter().rev().find(|(key, _)| key == NAME).map(|(_, value)| value.clone());
    if vetted.second_libc {
        Some("calls dlmopen: if free() ended it, another namespace's libc freed a block of Toft's")
    } else if set.or_else(|| env::var_os(NAME)).is_some_and(|value| value == "0") {
        Some("ran with TOFT_DEEPBIND=0: if free() ended it, libc freed a block of Toft's")
    } else {
        None
    }
}
