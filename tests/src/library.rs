//! The library under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What the sources run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Library {
    /// This shared object, preloaded.
    Toft(PathBuf),
    /// The C library's own malloc: shows that a test asks for no more than malloc's contract.
    Libc,
}

impl Library {
    /// The shared object, if there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Library::Toft(path) => Some(path),
            Library::Libc => None,
        }
    }

    /// Which build it is: it says so in its name, as programs ask for it.
    pub fn build(&self) -> Build {
        let Some(path) = self.path() else { return Build::Default };
        let secure = [Build::Secure, Build::Light].into_iter();
        if path.extension().is_some_and(|ending| ending == "a") {
            // An archive has no such name inside.
            let mut named = secure.filter(|build| path.ends_with(format!("{}.a", build.name())));
            return named.next().unwrap_or(Build::Default);
        }
        let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut named = secure.filter(|build| {
            let name = format!("{}\0", build.soname());
            bytes.windows(name.len()).any(|part| part == name.as_bytes())
        });
        named.next().unwrap_or(Build::Default)
    }
}

/// A build of the library. The later one has the checks of those before it, and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Build {
    /// `libtoft.so`, and the C library.
    Default,
    /// `libtoft-secure-light.so`.
    Light,
    /// `libtoft-secure.so`.
    Secure,
}

impl Build {
    fn name(self) -> &'static str {
        match self {
            Build::Default => "libtoft",
            Build::Light => "libtoft-secure-light",
            Build::Secure => "libtoft-secure",
        }
    }

    /// The name by which programs ask for it.
    pub fn soname(self) -> String {
        format!("{}.so.0", self.name())
    }
}

/// The build under test.
pub fn build_under_test() -> Build {
    static BUILD: OnceLock<Build> = OnceLock::new();
    *BUILD.get_or_init(|| library().build())
}

/// Whether the library under test is a secure build.
pub fn is_secure() -> bool {
    build_under_test() != Build::Default
}

/// The root of the repository.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the workspace")
}

/// Where cargo puts what it builds here.
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => workspace().join(dir),
        None => workspace().join("target"),
    }
}

/// Where compiled test programs are kept.
pub fn scratch_dir(name: &str) -> PathBuf {
    let dir = target_dir().join("toft-tests").join(name);
    std::fs::create_dir_all(&dir).expect("the target directory can be written");
    dir
}

fn build() -> Library {
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--release", "--package", "toft-preload"])
        .current_dir(workspace())
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the preload library does not build");
    let path = target_dir().join("release/libtoft.so");
    assert!(path.is_file(), "{} was not built", path.display());
    Library::Toft(path)
}

/// The library of checked `memcpy` and its like that goes with the one under test: beside it, or
/// built.
pub fn companion(library: &Path) -> Result<PathBuf, String> {
    static BUILT: OnceLock<bool> = OnceLock::new();
    const NAME: &str = "libtoft_checked.so";
    let beside = library.with_file_name(NAME);
    if beside.is_file() {
        return Ok(beside);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = BUILT.get_or_init(|| {
        let mut command = Command::new(cargo);
        command.args(["build", "--quiet", "--release", "--package", "toft-checked"]);
        command.current_dir(workspace()).status().is_ok_and(|status| status.success())
    });
    let path = target_dir().join("release").join(NAME);
    if *built && path.is_file() { Ok(path) } else { Err(format!("{NAME} is not built")) }
}

/// The library under test, found or built once.
pub fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| match std::env::var_os("TOFT_TEST_LIBRARY") {
        Some(name) if name == "none" => Library::Libc,
        Some(path) => {
            let path = workspace().join(path);
            Library::Toft(path.canonicalize().unwrap_or_else(|e| panic!("{}: {e}", path.display())))
        }
        None => build(),
    })
}
