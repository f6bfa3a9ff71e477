//! Systems that Toft does not run on: the crate refuses each with one error, which says what it
//! runs on.

use crate::arena::{Need, had, name};
use crate::place;
use crate::tally::Suite;

/// One of each kind: another C library, another width, other systems.
const REFUSED: [&str; 4] = [
    "aarch64-unknown-linux-musl",
    "i686-unknown-linux-gnu",
    "x86_64-pc-windows-gnu",
    "aarch64-apple-darwin",
];

/// Builds for each of them, where rustup has it.
pub fn run() -> Vec<Suite> {
    let mut tally = Vec::new();
    for target in REFUSED {
        let title = format!("refused: {target}");
        let need = Need::Target(target);
        tally.push(if had(need) {
            println!("\n==> {title}");
            Suite::checked(&title, 1, refused(target))
        } else {
            Suite::left_out(&title, &name(need))
        });
    }
    tally
}

fn refused(target: &str) -> Result<(), String> {
    let mut cargo = place::cargo();
    cargo.args(["check", "--package", "toft", "--lib", "--target", target]);
    cargo.arg("--target-dir").arg(place::target_dir().join("refused"));
    let output = cargo.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Err("it was built".into());
    }
    one_clear_error(&text)
}

/// Whether the compiler has given that one error and no more. Cargo adds that it could not compile.
fn one_clear_error(text: &str) -> Result<(), String> {
    let errors: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("error"))
        .filter(|line| !line.starts_with("error: could not compile"))
        .collect();
    match errors.as_slice() {
        [one] if one.contains("x86_64-unknown-linux-gnu") && one.contains("toft-arena") => Ok(()),
        [] => Err(format!("no error of the compiler: {text}")),
        [one] => Err(format!("another error: {one}")),
        [first, ..] => Err(format!("{} errors: {first}", errors.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_error_and_no_other_is_what_is_wanted() {
        const CLEAR: &str =
            "error: Toft runs on (x86_64-unknown-linux-gnu). Elsewhere toft-arena\n";
        const END: &str = "error: could not compile `toft-core` (lib) due to 1 previous error\n";
        assert!(one_clear_error(&[CLEAR, END].concat()).is_ok());
        assert!(
            one_clear_error(&[CLEAR, "error[E0432]: unresolved import\n", END].concat()).is_err()
        );
        assert!(one_clear_error("error: linking with `cc` failed\n").is_err());
        assert!(one_clear_error("").is_err());
    }
}
