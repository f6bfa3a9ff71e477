//! What shows that a program has its own allocator: its symbols, or, if it is stripped, what such
//! an allocator says.
//!
//! One name is not enough, because a program may have a function of that name for another purpose:
//! an allocator has one that allocates and one that frees.

/// A family of names: what they begin with, which of them allocate and which free.
struct Family {
    prefix: &'static [u8],
    allocate: &'static [&'static [u8]],
    free: &'static [&'static [u8]],
}

const PREFIXED: [&[u8]; 4] = [b"malloc", b"mallocx", b"malloc_aligned", b"calloc"];
const FREE: [&[u8]; 4] = [b"free", b"dallocx", b"sdallocx", b"free_size"];

/// mimalloc's own functions, by which a program may have all of its blocks.
const MIMALLOC: Family = Family {
    prefix: b"mi_",
    allocate: &[
        b"malloc",
        b"malloc_small",
        b"malloc_aligned",
        b"mallocn",
        b"zalloc",
        b"zalloc_small",
        b"zalloc_aligned",
        b"calloc",
        b"calloc_aligned",
        b"realloc",
        b"new",
        b"new_aligned",
        b"new_n",
        b"new_nothrow",
        b"heap_malloc",
        b"heap_malloc_small",
        b"heap_malloc_aligned",
        b"heap_zalloc",
        b"heap_calloc",
    ],
    free: &[
        b"free",
        b"free_size",
        b"free_aligned",
        b"free_size_aligned",
        b"cfree",
        b"heap_delete",
        b"heap_destroy",
    ],
};

const fn prefixed(prefix: &'static [u8]) -> Family {
    Family { prefix, allocate: &PREFIXED, free: &FREE }
}

const FAMILIES: [Family; 10] = [
    Family { prefix: b"", allocate: &[b"malloc"], free: &[b"free"] },
    prefixed(b"je_"),
    prefixed(b"_rjem_"),
    MIMALLOC,
    prefixed(b"tc_"),
    Family {
        prefix: b"sn_",
        allocate: &[b"malloc", b"calloc", b"rust_alloc"],
        free: &[b"free", b"rust_dealloc"],
    },
    prefixed(b"scalable_"),
    prefixed(b"moz_arena_"),
    Family { prefix: b"rp", allocate: &[b"malloc"], free: &[b"free"] },
    Family { prefix: b"dl", allocate: &[b"malloc"], free: &[b"free"] },
];

const RUST: &str = "a global allocator of Rust";

/// What was seen of a program's symbols.
#[derive(Default)]
pub struct Symbols {
    /// For each family the name that allocates.
    allocates: [Option<Vec<u8>>; FAMILIES.len()],
    frees: [bool; FAMILIES.len()],
    partition_alloc: bool,
    toft: bool,
    /// `__rust_alloc` is defined, by which Rust code allocates.
    rust: bool,
    /// The standard library's allocator is there.
    rust_default: bool,
    /// tcmalloc's `MallocExtension` is called, in C or in C++.
    extension: bool,
    /// Memory is had from libc with an alignment, as that allocator has it: it may be there without
    /// its name.
    aligned: bool,
}

impl Symbols {
    /// Takes a name that the program defines.
    pub fn defined(&mut self, name: &[u8]) {
        self.of_families(name, 0);
        // Chromium's C++ names contain its namespace, length first as the ABI writes them.
        const SPACE: &[u8] = b"15partition_alloc";
        self.partition_alloc |=
            name.starts_with(b"_Z") && name.windows(SPACE.len()).any(|part| part == SPACE);
        self.toft |= name == b"toft_root";
        self.rust |= is_rust(name, b"__rust_alloc") || is_rust(name, b"__rg_alloc");
        self.rust_default |= is_rust(name, b"__rdl_alloc");
    }

    /// Takes a name of the families from this one on.
    fn of_families(&mut self, name: &[u8], first: usize) {
        for (number, family) in FAMILIES.iter().enumerate().skip(first) {
            let Some(rest) = name.strip_prefix(family.prefix) else { continue };
            if family.allocate.contains(&rest) {
                self.allocates[number].get_or_insert_with(|| name.to_vec());
            }
            self.frees[number] |= family.free.contains(&rest);
        }
    }

    /// Takes a name that the program has from a library; `weak` if it does without.
    pub fn imported(&mut self, name: &[u8], weak: bool) {
        if !weak {
            const EXTENSION: &[u8] = b"MallocExtension";
            self.extension |= name.windows(EXTENSION.len()).any(|part| part == EXTENSION);
            // Toft is preloaded for the plain names, the first family, and for no other.
            self.of_families(name, 1);
        }
        let aligned: [&[u8]; 3] = [b"posix_memalign", b"aligned_alloc", b"memalign"];
        self.rust_default |= is_rust(name, b"__rdl_alloc");
        self.aligned |= aligned.contains(&name);
    }

    /// Returns true if the program asks tcmalloc for figures, or to release memory.
    pub fn calls_malloc_extension(&self) -> bool {
        self.extension
    }

    /// Whether Rust code allocates by malloc here.
    pub fn rust_by_malloc(&self) -> bool {
        self.rust && self.found().is_none()
    }

    /// The allocator of a program without symbols, by its constants.
    pub fn found_in(&self, constants: &[u8]) -> Option<String> {
        let saying = in_constants(constants).map(str::to_owned);
        // The default allocator of Rust has aligned memory from libc.
        saying.or_else(|| (!self.aligned && has_rust_std(constants)).then(|| RUST.into()))
    }

    /// The allocator, in a word.
    pub fn found(&self) -> Option<String> {
        // A program may use Toft's crate without having it for its allocator.
        let rust = self.rust && !self.rust_default;
        if self.toft && (rust || self.frees[0]) {
            return Some("Toft".into());
        }
        if self.partition_alloc {
            return Some("PartitionAlloc".into());
        }
        let mut pairs = self.allocates.iter().zip(&self.frees);
        if let Some(name) = pairs.find_map(|(name, &frees)| name.as_ref().filter(|_| frees)) {
            return Some(String::from_utf8_lossy(name).into_owned());
        }
        (rust && !self.aligned).then(|| RUST.into())
    }
}

/// Shared libraries whose purpose is to replace malloc.
pub fn is_library(soname: &str) -> bool {
    const NAMES: [&str; 9] = [
        "libjemalloc",
        "libtcmalloc",
        "libmimalloc",
        "libsnmalloc",
        "libhoard",
        "librpmalloc",
        "libscudo",
        "libisoalloc",
        "libtbbmalloc_proxy",
    ];
    NAMES.iter().any(|name| soname.starts_with(name))
}

/// Whether a symbol is this name of Rust's, plain or mangled with its length in front.
fn is_rust(symbol: &[u8], name: &[u8]) -> bool {
    symbol == name
        || symbol.strip_suffix(name).is_some_and(|before| {
            before.starts_with(b"_RNv") && before.ends_with(format!("{}_", name.len()).as_bytes())
        })
}

/// What allocators say, in two parts, the second one first: so that the whole is not in this
/// program itself.
const SAYINGS: [(&str, &[u8], &[u8]); 3] = [
    ("jemalloc", b"alloc>: ", b"<jem"),
    ("mimalloc", b"oc: error: ", b"mimall"),
    ("Toft", b" is the global allocator", b"toft::Toft"),
];

/// The allocator whose messages are in the constants of a program.
fn in_constants(bytes: &[u8]) -> Option<&'static str> {
    let found = |end: &[u8], begin: &[u8]| {
        bytes
            .windows(begin.len() + end.len())
            .any(|part| part[0] == begin[0] && part.starts_with(begin) && part.ends_with(end))
    };
    SAYINGS.iter().find(|(_, end, begin)| found(end, begin)).map(|(name, ..)| *name)
}

/// Whether constants have a place in the source of Rust's standard library, as panics name it: its
/// commit and its file.
fn has_rust_std(bytes: &[u8]) -> bool {
    const BEGIN: &[u8] = b"/rustc/";
    const END: &[u8] = b"/library/std/src/";
    const HASH: usize = 40;
    bytes.windows(BEGIN.len() + HASH + END.len()).any(|part| {
        part[0] == BEGIN[0]
            && part.starts_with(BEGIN)
            && part.ends_with(END)
            && part[BEGIN.len()..][..HASH].iter().all(u8::is_ascii_hexdigit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(defined: &[&str], imported: &[&str]) -> Option<String> {
        let mut symbols = Symbols::default();
        defined.iter().for_each(|name| symbols.defined(name.as_bytes()));
        imported.iter().for_each(|name| symbols.imported(name.as_bytes(), false));
        symbols.found()
    }

    #[test]
    fn an_allocator_has_a_name_that_allocates_and_one_that_frees() {
        for (names, found) in [
            (&["mi_malloc_aligned", "mi_free"][..], Some("mi_malloc_aligned")),
            (&["_rjem_mallocx", "_rjem_sdallocx"], Some("_rjem_mallocx")),
            (&["rpmalloc", "rpfree"], Some("rpmalloc")),
            (&["sn_rust_alloc", "sn_rust_dealloc"], Some("sn_rust_alloc")),
            (&["malloc", "free"], Some("malloc")),
            (&["mi_malloc"], None),
            (&["mi_malloc", "je_free"], None),
            (&["mi_print", "mi_freeze", "xmi_malloc", "xmi_free", "malloc_it"], None),
            (&["_ZN15partition_alloc4FreeEPv"], Some("PartitionAlloc")),
            (&["toft_root", "malloc", "free"], Some("Toft")),
            (&["toft_root", "__rust_alloc"], Some("Toft")),
            (&["toft_root", "__rust_alloc", "__rdl_alloc"], None),
        ] {
            assert_eq!(of(names, &[]).as_deref(), found, "{names:?}");
        }
        // From a library: Toft takes the place of the plain names alone.
        assert_eq!(of(&[], &["malloc", "free"]), None);
        assert_eq!(of(&[], &["mi_malloc", "mi_free"]).as_deref(), Some("mi_malloc"));
    }

    #[test]
    fn a_global_allocator_of_a_rust_program_is_detected() {
        let mangled = "_RNvCsfLfy6EI15iL_7___rustc12___rust_alloc";
        let default = "_RNvCsfLfy6EI15iL_7___rustc11___rdl_alloc";
        let other = Some("a global allocator of Rust".to_owned());
        assert_eq!(of(&[mangled], &["malloc"]), other);
        assert_eq!(of(&["__rust_alloc", "__rg_alloc"], &[]), other);
        assert_eq!(of(&[mangled, default], &["malloc"]), None);
        assert_eq!(of(&[mangled], &["malloc", "posix_memalign"]), None);
        assert_eq!(of(&["_RNvCsfLfy6EI15iL_7___rustc19___rust_alloc_zeroed"], &[]), None);
    }

    #[test]
    fn what_an_allocator_says_is_found_and_not_in_this_program() {
        let text = [b"x<jem".as_slice(), b"alloc>: y"].concat();
        assert_eq!(in_constants(&text), Some("jemalloc"));
        assert_eq!(in_constants(b"<jemalloc> is fast; mimalloc: too"), None);
        assert_eq!(in_constants(b""), None);
    }

    #[test]
    fn a_stripped_rust_program_is_detected_by_its_standard_library() {
        let place = |hash: &str, library: &str| {
            format!("x/rustc/{hash}/library/{library}/src/rt.rs").into_bytes()
        };
        let hash = "0123456789abcdef".repeat(3)[..40].to_owned();
        let of = |constants: &[u8], imported: &[&str]| {
            let mut symbols = Symbols::default();
            imported.iter().for_each(|name| symbols.imported(name.as_bytes(), false));
            symbols.found_in(constants)
        };
        assert_eq!(of(&place(&hash, "std"), &["malloc"]).as_deref(), Some(RUST));
        assert_eq!(of(&place(&hash, "std"), &["posix_memalign"]), None);
        // Code without the standard library may have no allocator at all.
        assert_eq!(of(&place(&hash, "core"), &[]), None);
        assert_eq!(of(&place(&hash[1..], "std"), &[]), None);
        assert_eq!(of(b"/rustc/", &[]), None);
    }
}
