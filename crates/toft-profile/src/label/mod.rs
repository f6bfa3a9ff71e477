//! The label of a call site: which of its functions names it, and how that name is written.
//!
//! | file | what |
//! |---|---|
//! | `libraries.txt` | code that allocates for its callers: libraries, containers, wrappers of malloc |
//! | `name.rs` | names of functions without what a reader does not need |
//!
//! The functions that are inlined at a site are known from debug information. The first one outside
//! libraries is the label.

mod name;

use std::sync::LazyLock;

use crate::Frame;
use toft_core::options::{of_c, of_libc};

pub use name::short;

/// What `libraries.txt` lists.
#[derive(Default)]
struct Libraries {
    prefixes: Vec<&'static str>,
    names: Vec<&'static str>,
    paths: Vec<&'static str>,
    interpreters: Vec<&'static str>,
}

static LIBRARIES: LazyLock<Libraries> =
    LazyLock::new(|| Libraries::read(include_str!("libraries.txt")));

impl Libraries {
    fn read(text: &'static str) -> Libraries {
        let mut libraries = Libraries::default();
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
            || self.prefixes.iter().any(|prefix| subject.starts_with(*prefix))
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
        ] {
            assert_eq!(first_own(&[frame(library, "a.cc")]), None, "{library}");
        }
        assert_eq!(first_own(&[frame("emplace", "/usr/include/c++/12/bits/stl_vector.h")]), None);
    }
}
