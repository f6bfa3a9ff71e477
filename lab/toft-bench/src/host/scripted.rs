//! Programs that run a script: all that there is to say of one is in its file in `workloads/`, in
//! the table `program`.

use super::programs::{together, with_tool};
use super::{HostWorkload, Stage};
use crate::cases::listed;
use crate::child::{self, Limits};
use crate::outcome::Outcome;
use crate::params::Params;
use crate::peers::Peer;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A program, and a script for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    pub tool: String,
    pub package: String,
    /// The argument with which it says its version, or does nothing else.
    pub version: String,
    pub script: String,
    /// The script. `#name#` stands for a number of the case.
    pub text: String,
    /// What it is started with. `{script}` stands for the path of the script.
    pub arguments: Vec<String>,
    /// True if the last line that it prints is a JSON object of figures.
    #[serde(default)]
    pub figures: bool,
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

/// The workload of a file with a table `program`.
macro_rules! scripted {
    ($name:literal) => {
        HostWorkload {
            name: $name,
            file: include_str!(concat!("../../workloads/", $name, ".toml")),
            prepare: |params| {
                program(include_str!(concat!("../../workloads/", $name, ".toml")))?.prepare(params)
            },
            run: |peer, _, stage, limits| {
                program(include_str!(concat!("../../workloads/", $name, ".toml")))?
                    .run(peer, stage, limits)
            },
        }
    };
}

pub const SQLITE: HostWorkload = scripted!("sqlite");
pub const LUA: HostWorkload = scripted!("lua");
pub const PERL: HostWorkload = scripted!("perl");
pub const NODE: HostWorkload = scripted!("node");
pub const GHOSTSCRIPT: HostWorkload = scripted!("ghostscript");
pub const FORK_PYTHON: HostWorkload = scripted!("fork-python");

fn program(file: &'static str) -> Result<&'static Program, String> {
    listed(file).program.as_ref().ok_or_else(|| "its file has no table `program`".to_owned())
}

impl Program {
    /// Writes the script, if the program is there.
    pub fn prepare(&self, params: &Params) -> Result<Stage, String> {
        with_tool(&self.tool, &self.package, &[&self.version])?;
        let text = fill(&self.text, params)?;
        let stage = Stage::new()?;
        stage.write(&self.script, &text)?;
        Ok(stage)
    }

    pub fn run(&self, peer: &Peer, stage: &Stage, limits: Limits) -> Result<Outcome, String> {
        let mut command = child::on_peer(peer, &self.tool);
        let script = stage.path(&self.script).display().to_string();
        command.args(self.arguments.iter().map(|word| word.replace("{script}", &script)));
        command.envs(&self.environment);
        let ended = child::run(command, limits)?;
        let own = if self.figures { figures(&ended.output)? } else { BTreeMap::new() };
        let mut outcome = together(&[ended]);
        outcome.metrics.extend(own);
        Ok(outcome)
    }
}

/// The figures in the last line that a script printed.
fn figures(output: &str) -> Result<BTreeMap<String, f64>, String> {
    let last = output.lines().last().unwrap_or_default();
    serde_json::from_str(last).map_err(|error| format!("unreadable figures {last:?}: {error}"))
}

/// A script with its numbers in it.
fn fill(text: &str, params: &Params) -> Result<String, String> {
    let mut text = text.to_owned();
    for (name, value) in params.iter() {
        text = text.replace(&format!("#{name}#"), &value.to_string());
    }
    match numbers(&text).first() {
        Some(name) => Err(format!("the script needs the number `{name}`")),
        None => Ok(text),
    }
}

/// The names of the numbers that a script still lacks.
fn numbers(text: &str) -> Vec<&str> {
    let is_name = |part: &&str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let mut parts: Vec<&str> = text.split('#').skip(1).collect();
    // What follows the last mark is not between two.
    parts.pop();
    parts.into_iter().filter(is_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::LIMITS;

    const ALL: [HostWorkload; 6] = [SQLITE, LUA, PERL, NODE, GHOSTSCRIPT, FORK_PYTHON];

    fn glibc() -> Peer {
        Peer::without_library("glibc", "")
    }

    fn shell(text: &str) -> Program {
        Program {
            tool: "sh".into(),
            package: "dash".into(),
            version: "-n".into(),
            script: "it.sh".into(),
            text: text.into(),
            arguments: vec!["{script}".into(), "word".into()],
            figures: false,
            environment: [("SET".to_owned(), "here".to_owned())].into(),
        }
    }

    #[test]
    fn a_script_gets_its_numbers_its_arguments_and_its_environment() {
        let params = Params::of("count=7");
        let run = |text: &str| {
            let program = shell(text);
            program.run(&glibc(), &program.prepare(&params)?, LIMITS)
        };
        let right = "[ #count# = 7 ] && [ $1 = word ] && [ $SET = here ]";
        assert_eq!(run(right).unwrap().ops, 1);
        for wrong in [
            right.replace("= 7", "= 8"),
            right.replace("= word", "= sword"),
            right.replace("= here", "= there"),
        ] {
            assert!(run(&wrong).unwrap_err().contains("exit status: 1"), "{wrong}");
        }
        assert_eq!(run("echo #more#").unwrap_err(), "the script needs the number `more`");
    }

    #[test]
    fn the_last_line_of_a_script_is_its_figures_if_its_file_says_so() {
        let run = |figures, text: &str| {
            let program = Program { figures, ..shell(text) };
            program.run(&glibc(), &program.prepare(&Params::default())?, LIMITS)
        };
        let text = r#"echo hello; echo '{"us": 7.5, "peak_mb": 0}'"#;
        let outcome = run(true, text).unwrap();
        assert_eq!((outcome.metrics["us"], outcome.metrics["peak_mb"]), (7.5, 0.0));
        assert!(!run(false, text).unwrap().metrics.contains_key("us"));
        assert_eq!(
            run(true, "echo 7").unwrap_err().split(": ").next(),
            Some("unreadable figures \"7\"")
        );
    }

    #[test]
    fn a_program_that_is_missing_is_named_with_its_package() {
        let absent = Program { tool: "no-such-tool".into(), ..shell("") };
        let Err(error) = absent.prepare(&Params::default()) else { panic!("it is there") };
        assert_eq!(error, "no-such-tool is not there: apt-get install dash");
    }

    #[test]
    fn the_numbers_of_every_row_are_those_of_its_script() {
        for workload in &ALL {
            let script = program(workload.file).unwrap();
            let mut wanted = numbers(&script.text);
            wanted.sort_unstable();
            wanted.dedup();
            for case in &workload.listed().cases {
                let given: Vec<&str> = case.full.iter().map(|(name, _)| name).collect();
                assert_eq!(given, wanted, "{}", case.name);
            }
        }
    }

    /// What is not installed must say so.
    #[test]
    fn every_script_runs_to_its_end() {
        for workload in &ALL {
            let case = &workload.listed().cases[0];
            let words: Vec<String> =
                case.full.iter().map(|(name, _)| format!("{name}=2")).collect();
            let params = Params::of(&words.join(" "));
            match (workload.prepare)(&params) {
                Ok(stage) => {
                    let outcome = (workload.run)(&glibc(), &params, &stage, LIMITS).unwrap();
                    assert!(outcome.metrics["peak_mb"] > 0.5, "{}", workload.name);
                }
                Err(error) => {
                    assert!(error.contains("is not there: apt-get install"), "{error}");
                    eprintln!("{}: {error}", workload.name);
                }
            }
        }
    }
}
