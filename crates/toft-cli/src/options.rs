//! `toft options`: every option of the library with its value and where that comes from.
//!
//! Table and parser are the library's own (`toft_core::options`), so that what is printed is what
//! it goes by.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::fmt;

use clap::Args;
use serde_json::json;
use toft_core::options::{Options as Parsed, TABLE};

use crate::style::{self, Style};
use crate::verb::{End, print};

const HELP: &str = "\
Examples:
  toft options                               list all options with their meaning
  TOFT_PARTITIONS=16 toft options            show what a program with that environment would get
  toft run --env TOFT_PARTITIONS=16 -- ls    run a program with that option

Exit status: 0, or 1 if a TOFT_ variable of the environment is unknown or has an invalid value.";

/// Show every option of the library with its value and the source of the value.
///
/// The options are environment variables. The values are those that a program started from here
/// would get.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct Options {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

struct Standing {
    name: &'static str,
    default: &'static str,
    doc: &'static str,
    expected: &'static str,
    given: Option<String>,
    valid: bool,
}

impl Standing {
    /// What the library will go by.
    fn value(&self) -> &str {
        self.given.as_deref().filter(|_| self.valid).unwrap_or(self.default)
    }

    fn source(&self) -> &'static str {
        if self.given.is_some() && self.valid { "environment" } else { "default" }
    }
}

pub fn options(args: &Options) -> End {
    let mut given: BTreeMap<String, String> = env::vars_os()
        .filter_map(|(name, value)| {
            let name = name.into_string().ok().filter(|name| name.starts_with("TOFT_"))?;
            Some((name, value.to_string_lossy().into_owned()))
        })
        .collect();
    let standings: Vec<Standing> = TABLE
        .iter()
        .map(|option| {
            let value = given.remove(option.name);
            Standing {
                name: option.name,
                default: option.default,
                doc: option.doc,
                expected: option.values,
                valid: value.as_deref().is_none_or(|value| valid(option.name, value)),
                given: value,
            }
        })
        .collect();
    let unknown: Vec<(String, Option<&'static str>)> =
        given.into_keys().map(|name| (name.clone(), nearest(&name))).collect();

    let text =
        if args.json { as_json(&standings, &unknown) } else { as_table(&standings, &unknown) };
    let wrong = !unknown.is_empty() || standings.iter().any(|option| !option.valid);
    print(text)?;
    Ok(i32::from(wrong))
}

fn as_json(standings: &[Standing], unknown: &[(String, Option<&'static str>)]) -> String {
    let options: Vec<_> = standings
        .iter()
        .map(|o| {
            json!({
                "name": o.name, "value": o.value(), "default": o.default, "source": o.source(),
                "given": o.given, "valid": o.valid, "expected": o.expected, "doc": o.doc,
            })
        })
        .collect();
    let unknown: Vec<_> =
        unknown.iter().map(|(name, nearest)| json!({"name": name, "nearest": nearest})).collect();
    format!("{}\n", json!({"options": options, "unknown": unknown}))
}

fn as_table(standings: &[Standing], unknown: &[(String, Option<&'static str>)]) -> String {
    let style = Style::of_stdout();
    let mut text = String::new();
    let names = standings.iter().map(|o| o.name.len()).max().unwrap_or(0);
    for option in standings {
        let value = format!("{:<10}", option.value());
        let value = if option.source() == "environment" { style.strong(&value) } else { value };
        let source = match option.source() {
            "environment" => format!("environment (default {})", option.default),
            source => source.to_owned(),
        };
        text += &format!("{:<names$}  {value}  {source}\n", option.name);
        text += &format!(
            "{:<names$}  {}\n",
            "",
            style.faint(&style::fit(option.doc, style.width.saturating_sub(names + 2)))
        );
        if let Some(given) = option.given.as_ref().filter(|_| !option.valid) {
            let fault = Fault::Value(option.name.into(), given.clone(), option.expected);
            let line = format!("{fault}; the default is used");
            text += &format!("{:<names$}  {}\n", "", style.bad(&line));
        }
    }
    for (name, nearest) in unknown {
        let fault = Fault::Unknown(name.into(), *nearest);
        text += &format!("{}\n", style.bad(&fault.to_string()));
    }
    text
}

/// Whether the library would take it.
fn valid(name: &str, value: &str) -> bool {
    { Parsed::DEFAULT }.take(format!("{name}={value}").as_bytes()).is_ok()
}

/// Why a variable is none that the library would take.
#[derive(Debug)]
pub enum Fault {
    /// No option has this name; the option that was probably meant.
    Unknown(String, Option<&'static str>),
    /// The option cannot have this value: both, and what it can have.
    Value(String, String, &'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Unknown(name, Some(meant)) => {
                write!(f, "unknown option {name}; did you mean {meant}?")
            }
            Fault::Unknown(name, None) => write!(f, "unknown option {name}"),
            Fault::Value(name, value, expected) => write!(f, "{name}={value} is not {expected}"),
        }
    }
}

/// What is wrong with a variable of the environment, as the library reads it.
pub fn fault(name: &str, value: &OsStr) -> Option<Fault> {
    if !name.starts_with("TOFT_") {
        return None;
    }
    let shown = value.to_string_lossy();
    match TABLE.iter().find(|option| option.name == name) {
        None => Some(Fault::Unknown(name.into(), nearest(name))),
        Some(_) if valid(name, &shown) => None,
        Some(option) => Some(Fault::Value(name.into(), shown.into(), option.values)),
    }
}

/// The option that was probably meant.
fn nearest(name: &str) -> Option<&'static str> {
    toft_core::options::nearest(name.as_bytes()).map(|option| option.name)
}
