//! The libraries inside the command, built once for everything that compiles the command.

use crate::{files, place, secure, step};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The variables of the command's build script, and the libraries that they name.
pub const LIBRARIES: [(&str, &str); 4] = [
    ("LIBTOFT_PATH", "libtoft.so"),
    ("LIBTOFT_SECURE_PATH", "libtoft-secure.so"),
    ("LIBTOFT_SECURE_LIGHT_PATH", "libtoft-secure-light.so"),
    ("LIBTOFT_RECORD_PATH", "libtoft_record.so"),
];

/// The variables, and where the libraries are.
pub type Carried = Vec<(&'static str, PathBuf)>;

/// Builds them, once in this process: a file that is newer makes cargo compile the command again.
/// Without these variables the command's build script builds all four libraries itself, for the
/// lints and for the tests.
pub fn build() -> Result<Carried, String> {
    static BUILT: OnceLock<Result<Carried, String>> = OnceLock::new();
    BUILT.get_or_init(build_all).clone()
}

fn build_all() -> Result<Carried, String> {
    // Each library is compiled as a whole, which keeps one processor busy.
    let release = std::thread::scope(|scope| {
        let secure = scope.spawn(secure::build_all);
        place::build(&["toft-record"])?;
        let release = place::build(&["toft-preload"]);
        secure.join().expect("no build panics")?;
        release
    })?;
    let folder = place::target_dir().join("carried");
    files::make_folder(&folder)?;
    let stripped = LIBRARIES.map(|(variable, file)| {
        // The build script carries libraries without line tables.
        let library = folder.join(file);
        let mut strip = Command::new("strip");
        strip.arg("--strip-debug").arg("-o").arg(&library).arg(release.join(file));
        step::succeed(&mut strip).map(|()| (variable, library))
    });
    stripped.into_iter().collect()
}
