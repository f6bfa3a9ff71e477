//! The label of a call site: which of its functions names it, and how that name is written.
//!
//! | file | what |
//! |---|---|
//! | `libraries.txt` | code that allocates for its callers: libraries, containers, wrappers of malloc |
//! | `name.rs` | names of functions without what a reader does not need |
//!
//! `library_functions.rs` of toft-core has more such functions, by their symbols: those of C, and
//! those of large programs in C++.
//!
//! The functions that are inlined at a site are known from debug information. The first one outside
//! libraries is the label.

mod name;

use std::sync::LazyLock;

use crate::Frame;
use crate::location::file_name;
use toft_core::options::{CXX_PROGRAMS, of_c, of_libc};

pub use name::short;

/// What `libraries.txt` lists.
#[derive(Default)]
struct Libraries {
    prefixes: Vec<&'static str>,
    names: Vec<&'static str>,
    paths: Vec<&'static str>,
    interpreters: Vec<&'static str>,
    /// Those of large programs in C++.
    of_programs: Vec<Path>,
}

/// The function, the class or the namespace at a path, and what is in it.
struct Path(String);

impl Path {
    /// Returns the path in the beginning of a symbol: `_ZN2v88internal4Zone6Expand` is
    /// `v8::internal::Zone::Expand`. A template's path ends in `<`, and that of a class alone in
    /// `::`, because a symbol of that form is of a function in it.
    fn of_symbol(symbol: &str) -> Option<Path> {
        let nested = symbol.strip_prefix("_ZN");
        let mut rest = nested.or(symbol.strip_prefix("_Z"))?;
        let mut names = Vec::new();
        while rest.starts_with(|letter: char| letter.is_ascii_digit()) {
            let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
            let (length, after) = rest.split_at(digits);
            let (name, after) = after.split_at_checked(length.parse().ok()?)?;
            names.push(name);
            rest = after;
        }
        let end = match rest {
            "" if nested.is_some() && names.len() == 1 => "::",
            "" => "",
            "I" => "<",
            "nw" => "::operator new",
            _ => return None,
        };
        Some(Path(names.join("::") + end))
    }

    fn has(&self, subject: &str) -> bool {
        let open = self.0.ends_with(['<', ':']);
        let rest = subject.strip_prefix(&self.0);
        rest.is_some_and(|rest| open || rest.is_empty() || rest.starts_with("::"))
    }
}

static LIBRARIES: LazyLock<Libraries> =
    LazyLock::new(|| Libraries::read(include_str!("libraries.txt")));

impl Libraries {
    fn read(text: &'static str) -> Libraries {
        let symbols = CXX_PROGRAMS.iter().filter_map(|symbol| str::from_utf8(symbol).ok());
        let of_programs = symbols.filter_map(Path::of_symbol).collect();
        let mut libraries = Libraries { of_programs, ..Libraries::default() };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            match line.split_once(' ') {
                Some(("name", prefix)) => libraries.prefixes.push(prefix),
                Some(("exact", name)) => libraries.names.push(name),
                Some(("path", part)) => libraries.paths.push(part),
                Some(("interpreter", prefix)) => libraries.interpreters.push(prefix),
                _ => {}
            }
        }
        libraries
    }

    fn have(&self, frame: &Frame) -> bool {
        let is_path = |file: &String| self.paths.iter().any(|part| file.contains(*part));
        let subject = name::subject(&frame.function);
        frame.file.as_ref().is_some_and(is_path)
            || self.names.contains(&subject)
            || of_c(subject.as_bytes())
            || of_libc(subject.as_bytes())
            // A type of the program that stands for malloc.
            || frame.function.contains(" as core::alloc::global::GlobalAlloc>::")
            || self.prefixes.iter().any(|prefix| subject.starts_with(*prefix))
            || self.of_programs.iter().any(|path| path.has(subject))
    }
}

/// Returns true if a file of this name is an interpreter, or has one in it.
pub fn is_interpreter(file: &str) -> bool {
    LIBRARIES.interpreters.iter().any(|prefix| file.starts_with(*prefix))
}

/// Returns true if a frame is outside libraries.
pub fn is_own(frame: &Frame) -> bool {
    !LIBRARIES.have(frame)
}

/// Folders of packages and of modules that belong to a runtime.
const PACKAGES: [&str; 5] =
    ["/site-packages/", "/dist-packages/", "/node_modules/", "/lib/python3", "/lib64/python3"];

/// Returns the name of a source file. A module of a runtime or a package has its path there, so
/// that `flask/app.py` is not mistaken for a file of the program.
pub(crate) fn shown_file(path: &str) -> &str {
    if path.starts_with("node:") || path.starts_with('<') {
        return path;
    }
    let name = file_name(path);
    // The last folder counts: packages are below the runtime's modules, and may have others inside.
    let marks = PACKAGES.iter().filter_map(|mark| Some((path.rfind(mark)?, *mark)));
    let Some((at, mark)) = marks.max() else { return name };
    let folder = at + 1 + mark[1..].find('/').map_or(0, |end| end + 1);
    match mark.ends_with('/') {
        true if path[at + mark.len()..].contains('/') => &path[at + mark.len()..],
        true => &path[at + 1..],
        // The folder of the version, as `python3.11`, names the runtime.
        false => &path[folder..],
    }
}

/// Returns true if a function of this name stands for malloc: it allocates what its caller asks
/// for.
pub fn stands_for_malloc(function: &str) -> bool {
    let subject = name::subject(function);
    LIBRARIES.names.contains(&subject)
        || of_c(subject.as_bytes())
        || of_libc(subject.as_bytes())
        || subject.starts_with("operator new")
        || ["__rust_alloc", "__rust_realloc", "__rdl_alloc", "__rdl_realloc"]
            .iter()
            .any(|shim| subject.contains(shim))
}

/// The index of the first frame outside libraries; `None` if all frames are of libraries.
pub fn first_own(frames: &[Frame]) -> Option<usize> {
    frames.iter().position(is_own)
}

/// The frame that names a call site: the first one outside libraries, or the outermost one.
pub fn label(frames: &[Frame]) -> Option<&Frame> {
    of_choice(frames, first_own(frames))
}

/// The label if `first_own` is the index of the first frame outside libraries.
pub(crate) fn of_choice(frames: &[Frame], first_own: Option<usize>) -> Option<&Frame> {
    match first_own {
        Some(index) => frames.get(index),
        None => frames.last(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: &str) -> Frame {
        Frame { function: function.into(), file: Some(file.into()), line: Some(1) }
    }

    #[test]
    fn every_line_of_the_list_is_read() {
        let lines = include_str!("libraries.txt").lines();
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).count();
        let read = &*LIBRARIES;
        let code = read.prefixes.len() + read.names.len() + read.paths.len();
        assert_eq!(code + read.interpreters.len(), lines);
    }

    /// No symbol of the list in toft-core is of a form that is not read.
    #[test]
    fn symbols_of_programs_are_paths() {
        assert_eq!(LIBRARIES.of_programs.len(), CXX_PROGRAMS.len());
        for library in [
            "v8::internal::AllocWithRetry",
            "v8::internal::Malloced::operator new(unsigned long)",
            "node::NodeArrayBufferAllocator::Allocate(unsigned long)",
            "node::MaybeStackBuffer<char, 1024ul>::AllocateSufficientStorage(unsigned long)",
            "void va_heap::reserve<tree_node*>(vec<tree_node*, va_heap, vl_embed>*&, unsigned int)",
            "vec<tree_node*, va_heap, vl_ptr>::reserve(unsigned int, bool)",
            "ggc_realloc(void*, unsigned long)",
        ] {
            assert_eq!(first_own(&[frame(library, "a.cc")]), None, "{library}");
        }
        for own in
            ["vec", "va_heap", "v8::internal::Zone::ExpandAll", "ggc_reallocate", "node::Maybe"]
        {
            assert_eq!(first_own(&[frame(own, "a.cc")]), Some(0), "{own}");
        }
    }

    #[test]
    fn the_label_is_the_first_function_outside_libraries() {
        let frames = [
            frame("alloc::alloc::alloc", "/rustc/1f2e/library/alloc/src/alloc.rs"),
            frame("<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter", "vec.rs"),
            frame("app::read_names", "/home/a/app/src/main.rs"),
            frame("app::main", "/home/a/app/src/main.rs"),
        ];
        assert_eq!(first_own(&frames), Some(2));
        assert_eq!(label(&frames), Some(&frames[2]));
        assert_eq!(first_own(&frames[..2]), None);
        assert_eq!(label(&frames[..2]), Some(&frames[1]));
        assert_eq!(label(&[]), None);
    }

    /// As an optimized program has them whose debug information is lines alone.
    #[test]
    fn a_global_allocator_that_is_inlined_is_known_by_its_file() {
        for toft in
            ["/src/toft/crates/toft/src/global.rs", "/registry/src/x/toft-0.1.0/src/global.rs"]
        {
            let frames = [
                frame("malloc_here", "/registry/src/x/toft-core-0.1.0/src/process/shim.rs"),
                frame("alloc", toft),
                frame("alloc", "/rustc/1f2e/library/alloc/src/alloc.rs"),
                frame("{closure#0}", "/home/a/toft-app/src/main.rs"),
            ];
            assert_eq!(first_own(&frames), Some(3), "{toft}");
        }
    }

    #[test]
    fn files_of_packages_and_runtimes_have_their_folders() {
        for (path, shown) in [
            ("/srv/shop/app.py", "app.py"),
            ("/srv/lib/app.py", "app.py"),
            ("/v/lib/python3.11/site-packages/flask/app.py", "flask/app.py"),
            ("/v/lib/python3.11/site-packages/six.py", "site-packages/six.py"),
            ("/usr/lib/python3/dist-packages/yaml/loader.py", "yaml/loader.py"),
            ("/usr/lib/python3.11/json/decoder.py", "python3.11/json/decoder.py"),
            ("/usr/lib64/python3.12/threading.py", "python3.12/threading.py"),
            ("/srv/node_modules/a/node_modules/b/lib/c.js", "b/lib/c.js"),
            ("node:internal/main", "node:internal/main"),
            ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"),
            ("/src/sample.c", "sample.c"),
        ] {
            let frame = Frame { line: Some(3), ..frame("f", path) };
            assert_eq!(frame.words(), format!("f at {shown}:3"));
            assert_eq!(is_own(&frame), shown == file_name(path) && !shown.starts_with(['<', 'n']));
        }
    }

    #[test]
    fn functions_that_allocate_what_is_asked_for_stand_for_malloc() {
        for name in [
            "malloc",
            "aligned_alloc",
            "toft_malloc_at",
            "g_malloc",
            "strdup",
            "operator new[](unsigned long)",
            "__rustc::__rust_alloc",
            "__rdl_realloc",
        ] {
            assert!(stands_for_malloc(name), "{name}");
        }
        for name in
            ["main", "free", "__rust_dealloc", "alloc::fmt::format", "operator delete(void*)"]
        {
            assert!(!stands_for_malloc(name), "{name}");
        }
    }

    #[test]
    fn a_function_of_the_program_is_own_whatever_it_implements() {
        for own in [
            "<app::Item as core::clone::Clone>::clone",
            "app::alloc::grow",
            "my_vector<int>::push_back(int const&)",
            "stdio_open",
            "void app::fill<std::vector<int> >(std::vector<int>&)",
            "std_like::f",
        ] {
            assert_eq!(first_own(&[frame(own, "a.cc")]), Some(0), "{own}");
        }
        for library in [
            "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int&&)",
            "std::__cxx11::basic_string<char>::_M_create(unsigned long&, unsigned long)",
            "operator new(unsigned long)",
            "<T as alloc::slice::hack::ConvertVec>::to_vec",
            "<&mut core::iter::Map<I,F> as core::iter::Iterator>::next",
            "g_malloc",
            "strdup",
            "__rust_alloc",
            "<app::Counted as core::alloc::global::GlobalAlloc>::alloc",
        ] {
            assert_eq!(first_own(&[frame(library, "a.cc")]), None, "{library}");
        }
        assert_eq!(first_own(&[frame("emplace", "/usr/include/c++/12/bits/stl_vector.h")]), None);
    }
}
