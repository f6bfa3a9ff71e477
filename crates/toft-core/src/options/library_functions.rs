//! Which functions `rust` and `c++` in `TOFT_WRAPPERS` stand for: those of the language's libraries
//! that allocate for their caller.
//!
//! A mangled name begins with the path of its function, so the beginning decides. The rest may have
//! any type of the program in it and does not count.
//!
//! ```text
//! _RNvNtNtCslNYArtu3iFV_5alloc3fmt6format         alloc::fmt::format
//! _ZN5alloc3fmt6format17h2f4bE                    the same in the older form
//! _ZN60_$LT$alloc..string..String$u20$as$u20$core..fmt..Write$GT$9write_str17h0dE
//! _ZNSt6vectorIiSaIiEE17_M_realloc_insertI        std::vector<int>::_M_realloc_insert
//! ```

/// The modules: each crate with its length, as both forms have it. Left out is what no function of
/// the program calls and may contain one inlined, such as `core::ops` and `std::thread`. What is
/// above it would say nothing.
const MODULES: [&[u8]; 14] = [
    b"5alloc",
    b"9hashbrown",
    b"7___rustc",
    b"4core3fmt",
    b"4core7convert",
    b"4core4iter",
    b"4core6option",
    b"4core6result",
    b"3std2fs",
    b"3std2io",
    b"3std3env",
    b"3std3ffi",
    b"3std4path",
    b"3std11collections",
];

/// The types whose trait implementations are meant, as the older form has them.
const TYPES: [&[u8]; 5] = [b"alloc..", b"hashbrown..", b"core..fmt..", b"core..iter..", b"std.."];

/// The traits of them, and how each path in an implementation begins that is not of the program.
const TRAITS: [&[u8]; 4] = [b"alloc..", b"hashbrown..", b"core..", b"std.."];

/// The traits that libraries implement for type parameters and primitive types. Without
/// optimization these functions are not inlined.
const BLANKET: [&[u8]; 2] = [b"alloc..", b"core..convert.."];

/// What the compiler makes itself, and the methods of a global allocator.
const BEGINNINGS: [&[u8]; 4] = [b"__rust_alloc", b"__rust_realloc", b"__rdl_", b"__rg_"];
const ALLOCATOR: &[u8] = b"GlobalAlloc";
/// A closure of the program that a library calls may be all that such a function contains.
const CLOSURE: &[u8] = b"9call_once";

/// How names of namespace `std`, of its members that are `const`, and of GNU's extensions begin.
const CXX: [&[u8]; 7] =
    [b"_ZNSt", b"_ZNKSt", b"_ZSt", b"_ZNSs", b"_ZNKSs", b"_ZN9__gnu_cxx", b"_ZNK9__gnu_cxx"];

/// What no function of the program calls, and what may have a function of the program inlined: the
/// beginning of a thread, `std::function`, `std::async`, in both libraries.
const CXX_CLOSURES: [&[u8]; 5] =
    [b"St6thread", b"__thread_proxy", b"_Function_handler", b"__function", b"__invoke"];

/// Returns true if a function of C++'s libraries has this name and allocates for its caller.
pub(super) fn of_cxx(name: &[u8]) -> bool {
    begins(name, &CXX) && CXX_CLOSURES.iter().all(|part| after(name, part).is_none())
}

/// Returns true if a function of Rust's libraries has this name and allocates for its caller.
pub(super) fn of_rust(name: &[u8]) -> bool {
    let is_of_library = if let Some(path) = name.strip_prefix(b"_R") {
        crate_in(path).is_some_and(|rest| begins(rest, &MODULES))
    } else if let Some(path) = name.strip_prefix(b"_ZN") {
        begins(path, &MODULES) || is_implementation(path)
    } else {
        begins(name, &BEGINNINGS)
    };
    is_of_library && after(name, CLOSURE).is_none() || after(name, ALLOCATOR).is_some()
}

/// Returns the part of a path in the newer form from the name of its first crate on. `Cs`, a
/// number and `_` are before it.
fn crate_in(path: &[u8]) -> Option<&[u8]> {
    let number = after(path, b"Cs")?;
    after(number, b"_")
}

/// Returns true if a path in the older form is that of a trait's method for a type, and neither is
/// of the program.
fn is_implementation(path: &[u8]) -> bool {
    let digits = path.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let path = path.get(digits..).unwrap_or(&[]);
    let Some(subject) = path.strip_prefix(b"_$LT$") else { return false };
    let subject = subject.strip_prefix(b"$RF$").unwrap_or(subject);
    let Some((subject, of)) = split(subject, b"$u20$as$u20$") else { return false };
    // A part without a beginning continues the one before.
    let of_library = |part: &[u8]| {
        split(part, b"..").is_none_or(|(root, _)| root.is_empty() || begins(part, &TRAITS))
    };
    let is_word = subject.iter().all(u8::is_ascii_alphanumeric);
    let traits = if is_word { &BLANKET[..] } else { &TRAITS };
    (is_word || begins(subject, &TYPES))
        && begins(of, traits)
        && path.split(|&byte| byte == b'$').all(of_library)
}

fn begins(text: &[u8], beginnings: &[&[u8]]) -> bool {
    beginnings.iter().any(|beginning| text.starts_with(beginning))
}

/// Returns what precedes the first `part` of a text, and what follows it.
fn split<'a>(text: &'a [u8], part: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = text.windows(part.len()).position(|window| window == part)?;
    Some((text.get(..at)?, text.get(at + part.len()..)?))
}

/// Returns what follows the first `part` of a text.
fn after<'a>(text: &'a [u8], part: &[u8]) -> Option<&'a [u8]> {
    split(text, part).map(|(_, after)| after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_libraries_allocate_for_their_caller() {
        for name in [
            "__rust_alloc",
            "__rdl_alloc_zeroed",
            "_RNvCs5QKde7ScR4H_7___rustc12___rust_alloc",
            "_RNvMs2_NtCslNYArtu3iFV_5alloc7raw_vecNtB5_11RawVecInner11finish_grow",
            "_RNvNvNtCslNYArtu3iFV_5alloc3fmt6format12format_inner",
            "_RINvMs6_NtCsaEcLY7f4FNL_9hashbrown3rawINtB6_8RawTableRNtCscp_9gix_index5EntryE14reserve_rehash",
            "_RNvXs_NtNtCslNYArtu3iFV_5alloc3vec14spec_from_iterINtB6_3VecNtCs1_3app4NodeE9from_iter",
            "_ZN5alloc7raw_vec11finish_grow17h2c4fE",
            "_ZN9hashbrown3raw21RawTable$LT$T$C$A$GT$14reserve_rehash17h0E",
            "_ZN60_$LT$alloc..string..String$u20$as$u20$core..fmt..Write$GT$9write_str17h0dE",
            "_ZN63_$LT$$RF$alloc..string..String$u20$as$u20$core..fmt..Write$GT$9write_str17h0dE",
            "_ZN4core3fmt5write17h0E",
            "_ZN63_$LT$u8$u20$as$u20$alloc..vec..spec_from_elem..SpecFromElem$GT$9from_elem17h0E",
            "_ZN62_$LT$T$u20$as$u20$alloc..vec..spec_from_elem..SpecFromElem$GT$9from_elem17h0E",
            "_ZN5alloc3vec9from_elem17h07f6E",
            "_ZN96_$LT$T$u20$as$u20$alloc..slice..$LT$impl$u20$$u5b$T$u5d$$GT$..to_vec_in..ConvertVec$GT$6to_vec17h0E",
            "_RNvXs2_NtCs1_4core7convertReINtB5_4IntoNtNtCs2_5alloc6string6StringE4into",
            "_ZN50_$LT$T$u20$as$u20$core..convert..Into$LT$U$GT$$GT$4into17h0E",
            "_RNvXs_Cs1_3appNtB4_5CountNtNtNtCs2_4core5alloc6global11GlobalAlloc5alloc",
        ] {
            assert!(of_rust(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn functions_of_the_program_and_what_contains_them_do_not() {
        for name in [
            "malloc",
            "main",
            "rust",
            "_R",
            "_RNvCs",
            "_ZN",
            "_RNvCs1_3app5parse",
            "_RINvCs1_3app4growINtNtCs2_5alloc3vec3VecNtNtB4_5alloc6GlobalEE",
            "_ZN3app5alloc17h0E",
            "_ZN57_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$app..Grow$GT$4grow17h0E",
            "_ZN45_$LT$app..Node$u20$as$u20$core..clone..Clone$GT$5clone17h0E",
            "_ZN44_$LT$T$u20$as$u20$app..Grow$GT$4grow17h0E",
            "_ZN57_$LT$u8$u20$as$u20$core..convert..From$LT$app..Node$GT$$GT$4from17h0E",
            "_ZN76_$LT$alloc..string..String$u20$as$u20$core..convert..From$LT$app..Node$GT$$GT$4from17h0E",
            "_ZN54_$LT$F$u20$as$u20$core..future..future..Future$GT$4poll17h0E",
            "_RINvNtNtCs1_3std3sys9backtrace28___rust_begin_short_backtraceNCNvCs2_3app4main0uE",
            "_RNSNvYNCNvCs2_5alloc4main0INtNtNtCs1_4core3ops8function6FnOnceuE9call_once6vtable",
        ] {
            assert!(!of_rust(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn functions_of_namespace_std_allocate_for_their_caller() {
        for name in [
            "_ZNSt6vectorIiSaIiEE17_M_realloc_insertIJiEEEvv",
            "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_createERmm",
            "_ZNKSt8functionIFvvEEclEv",
            "_ZNSt3__16vectorIiNS_9allocatorIiEEE9push_backEOi",
            "_ZSt16__do_uninit_copyIPKiPiET0_T_S4_S3_",
            "_ZN9__gnu_cxx13new_allocatorIiE8allocateEmPKv",
        ] {
            assert!(of_cxx(name.as_bytes()), "{name}");
        }
        for name in [
            "main",
            "_Z10read_namesv",
            "_Z4growRSt6vectorIiSaIiEE",
            "_ZN3app4growERSt6vectorIiSaIiEE",
            "_ZNSt6thread11_State_implINS_8_InvokerISt5tupleIJZ4mainEUlvE_EEEEE6_M_runEv",
            "_ZNSt17_Function_handlerIFvvEZ4mainEUlvE_E9_M_invokeERKSt9_Any_data",
            "_ZSt13__invoke_implIvZ4mainEUlvE_JEET_St14__invoke_other",
            "_ZNSt3__110__function6__funcIZ4mainE3$_0NS_9allocatorIS2_EEFvvEEclEv",
            "_ZNSt3__114__thread_proxyINS_5tupleIJNS_10unique_ptrI",
        ] {
            assert!(!of_cxx(name.as_bytes()), "{name}");
        }
    }
}
