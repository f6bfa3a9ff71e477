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
    /// Whether this is the hardened build: told by a text that only its file has.
    pub fn is_hardened(&self) -> bool {
        static HARDENED: OnceLock<bool> = OnceLock::new();
        let text = b"is not for the hardened build";
        let read = |path: &Path| std::fs::read(path).expect("the library can be read");
        let has = |path| read(path).windows(text.len()).any(|bytes| bytes == text);
        *HARDENED.get_or_init(|| self.path().is_some_and(has))
    }

    /// The shared object, if there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Library::Toft(path) => Some(path),
            Library::Libc => None,
        }
    }
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
