use crate::Arguments;
use std::process::ExitCode;

pub fn run(_: &Arguments) -> Result<ExitCode, String> {
    Err("not there yet".into())
}
