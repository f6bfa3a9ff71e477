//! Which functions `rust`, `c++` and `c` in `TOFT_WRAPPERS` stand for: those that allocate for
//! their caller. `rust` and `c++` are the libraries of the language, `c` is a list of names.
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
const MODULES: [&[u8]; 17] = [
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
    b"3std3sys2fs",
    b"3std3sys3pal4unix2fs",
    b"3std3sys4unix2fs",
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

/// How names of namespace `std`, of its members that are `const`, of its abbreviated classes (`So`
/// is `ostream`), of GNU's extensions, and of both forms of `operator new` begin. A program that
/// has the library linked in, or replaces `operator new`, has the last two.
const CXX: [&[u8]; 12] = [
    b"_ZNSt",
    b"_ZNKSt",
    b"_ZSt",
    b"_ZNSs",
    b"_ZNKSs",
    b"_ZNSi",
    b"_ZNSo",
    b"_ZNSd",
    b"_ZN9__gnu_cxx",
    b"_ZNK9__gnu_cxx",
    b"_Znw",
    b"_Zna",
];

/// What no function of the program calls, and what may have a function of the program inlined: the
/// beginning of a thread, `std::function`, `std::async`, in both libraries.
const CXX_CLOSURES: [&[u8]; 5] =
    [b"St6thread", b"__thread_proxy", b"_Function_handler", b"__function", b"__invoke"];

/// How the names of functions of C++ begin that stand for malloc, or are of containers, in large
/// programs: gcc, V8 and node. `toft-profile` makes the names in labels of these.
pub const CXX_PROGRAMS: [&[u8]; 16] = [
    b"_Z11ggc_realloc",
    b"_Z18ggc_internal_alloc",
    b"_Z26ggc_internal_cleared_alloc",
    b"_ZN10hash_tableI",
    b"_ZN2v88internal12BackingStore8Allocate",
    b"_ZN2v88internal14AllocWithRetry",
    b"_ZN2v88internal19AccountingAllocator15AllocateSegment",
    b"_ZN2v88internal21AlignedAllocWithRetry",
    b"_ZN2v88internal21AllocAtLeastWithRetry",
    b"_ZN2v88internal4Heap28AllocateExternalBackingStore",
    b"_ZN2v88internal4Zone6Expand",
    b"_ZN2v88internal8Mallocednw",
    b"_ZN3vecI",
    b"_ZN4node16MaybeStackBufferI",
    b"_ZN4node24NodeArrayBufferAllocator",
    b"_ZN7va_heap",
];

/// Functions of C that stand for malloc in large programs and libraries, in the order of bytes.
const C: [&[u8]; 249] = [
    b"AllocSetAlloc",
    b"AllocSetAllocFromNewBlock",
    b"AllocSetAllocLarge",
    b"AllocSetContextCreateInternal",
    b"CRYPTO_clear_realloc",
    b"CRYPTO_malloc",
    b"CRYPTO_memdup",
    b"CRYPTO_realloc",
    b"CRYPTO_secure_malloc",
    b"CRYPTO_secure_zalloc",
    b"CRYPTO_strdup",
    b"CRYPTO_strndup",
    b"CRYPTO_zalloc",
    b"MemoryContextAlloc",
    b"MemoryContextAllocZero",
    b"MemoryContextStrdup",
    b"Perl_safesyscalloc",
    b"Perl_safesysmalloc",
    b"Perl_safesysrealloc",
    b"PyMem_Calloc",
    b"PyMem_Malloc",
    b"PyMem_RawCalloc",
    b"PyMem_RawMalloc",
    b"PyMem_RawRealloc",
    b"PyMem_Realloc",
    b"PyObject_Calloc",
    b"PyObject_Malloc",
    b"PyObject_Realloc",
    b"PyType_GenericAlloc",
    b"_PyMem_DebugCalloc",
    b"_PyMem_DebugMalloc",
    b"_PyMem_DebugRawAlloc",
    b"_PyMem_DebugRawCalloc",
    b"_PyMem_DebugRawMalloc",
    b"_PyMem_DebugRawRealloc",
    b"_PyMem_DebugRealloc",
    b"_PyMem_RawCalloc",
    b"_PyMem_RawMalloc",
    b"_PyMem_RawRealloc",
    b"_PyMem_RawStrdup",
    b"_PyMem_Strdup",
    b"_PyObject_Calloc",
    b"_PyObject_GC_Malloc",
    b"_PyObject_GC_New",
    b"_PyObject_GC_NewVar",
    b"_PyObject_Malloc",
    b"_PyObject_New",
    b"_PyObject_NewVar",
    b"_PyObject_Realloc",
    b"_PyType_AllocNoTrack",
    b"__gmp_default_allocate",
    b"__gmp_default_reallocate",
    b"__zend_calloc",
    b"__zend_malloc",
    b"__zend_realloc",
    b"_ecalloc",
    b"_emalloc",
    b"_erealloc",
    b"_erealloc2",
    b"_estrdup",
    b"_estrndup",
    b"_objalloc_alloc",
    b"_obstack_begin",
    b"_obstack_begin_1",
    b"_obstack_newchunk",
    b"_safe_emalloc",
    b"_safe_malloc",
    b"_sdsMakeRoomFor",
    b"_sdsnewlen",
    b"alloc_root",
    b"apr_allocator_alloc",
    b"apr_palloc",
    b"apr_pool_create_ex",
    b"apr_pstrdup",
    b"av_calloc",
    b"av_malloc",
    b"av_malloc_array",
    b"av_mallocz",
    b"av_memdup",
    b"av_realloc",
    b"av_realloc_array",
    b"av_realloc_f",
    b"av_reallocp",
    b"av_strdup",
    b"dbMallocRawFinish",
    b"dbReallocFinish",
    b"do_malloc",
    b"do_xmalloc",
    b"do_xmallocz",
    b"ecalloc",
    b"emalloc",
    b"erealloc",
    b"estrdup",
    b"g_aligned_alloc",
    b"g_malloc",
    b"g_malloc0",
    b"g_malloc0_n",
    b"g_malloc_n",
    b"g_memdup",
    b"g_memdup2",
    b"g_realloc",
    b"g_realloc_n",
    b"g_slice_alloc",
    b"g_slice_alloc0",
    b"g_slice_copy",
    b"g_strdup",
    b"g_strndup",
    b"g_try_malloc",
    b"g_try_malloc0",
    b"g_try_malloc_n",
    b"g_try_realloc",
    b"gc_alloc",
    b"hi_calloc",
    b"hi_malloc",
    b"hi_realloc",
    b"hi_strdup",
    b"init_alloc_root",
    b"isc__mem_allocate",
    b"isc__mem_get",
    b"isc__mem_reallocate",
    b"isc__mem_reget",
    b"isc__mem_strdup",
    b"isc__mem_strndup",
    b"isc__mempool_create",
    b"isc__mempool_get",
    b"l_alloc",
    b"luaM_growaux_",
    b"luaM_malloc_",
    b"luaM_realloc_",
    b"luaM_saferealloc_",
    b"mallocWithAlarm",
    b"memdup_root",
    b"multi_alloc_root",
    b"my_large_malloc",
    b"my_malloc",
    b"my_memdup",
    b"my_multi_malloc",
    b"my_multi_malloc_large",
    b"my_once_alloc",
    b"my_once_memdup",
    b"my_once_strdup",
    b"my_realloc",
    b"my_strdup",
    b"my_strndup",
    b"ngx_alloc",
    b"ngx_calloc",
    b"ngx_create_pool",
    b"ngx_palloc",
    b"ngx_pcalloc",
    b"ngx_pnalloc",
    b"objalloc_create",
    b"objspace_xcalloc",
    b"objspace_xmalloc0",
    b"objspace_xrealloc",
    b"palloc",
    b"palloc0",
    b"pcache1Alloc",
    b"pcache1AllocPage",
    b"pg_malloc",
    b"pg_malloc0",
    b"pstrdup",
    b"rb_alloc_tmp_buffer",
    b"repalloc",
    b"root_alloc",
    b"ruby_strdup",
    b"ruby_xcalloc",
    b"ruby_xmalloc",
    b"ruby_xmalloc2",
    b"ruby_xrealloc",
    b"ruby_xrealloc2",
    b"safe_calloc",
    b"safe_malloc",
    b"safe_realloc",
    b"safe_strdup",
    b"sdsMakeRoomFor",
    b"sdsMakeRoomForNonGreedy",
    b"sdsResize",
    b"sdsdup",
    b"sdsempty",
    b"sdsgrowzero",
    b"sdsnew",
    b"sdsnewlen",
    b"sdstrynewlen",
    b"sqlite3DbMallocRaw",
    b"sqlite3DbMallocRawNN",
    b"sqlite3DbMallocZero",
    b"sqlite3DbRealloc",
    b"sqlite3DbReallocOrFree",
    b"sqlite3DbStrDup",
    b"sqlite3DbStrNDup",
    b"sqlite3Malloc",
    b"sqlite3MallocZero",
    b"sqlite3MemMalloc",
    b"sqlite3MemRealloc",
    b"sqlite3PageMalloc",
    b"sqlite3Realloc",
    b"sqlite3_malloc",
    b"sqlite3_malloc64",
    b"sqlite3_realloc",
    b"sqlite3_realloc64",
    b"strdup_root",
    b"strmake_root",
    b"uv__calloc",
    b"uv__malloc",
    b"uv__realloc",
    b"uv__reallocf",
    b"uv__strdup",
    b"uv__strndup",
    b"x2nrealloc",
    b"x2realloc",
    b"xcalloc",
    b"xcharalloc",
    b"xicalloc",
    b"ximalloc",
    b"ximemdup",
    b"xirealloc",
    b"xireallocarray",
    b"xizalloc",
    b"xmalloc",
    b"xmalloc0",
    b"xmallocz",
    b"xmemdup",
    b"xmemdupz",
    b"xnmalloc",
    b"xnrealloc",
    b"xpalloc",
    b"xrealloc",
    b"xreallocarray",
    b"xstrdup",
    b"xstrndup",
    b"xzalloc",
    b"zcalloc",
    b"zcalloc_num",
    b"zcalloc_usable",
    b"zmalloc",
    b"zmalloc_no_tcache",
    b"zmalloc_usable",
    b"zrealloc",
    b"zrealloc_usable",
    b"zstrdup",
    b"ztrycalloc",
    b"ztrycalloc_usable",
    b"ztrycalloc_usable_internal",
    b"ztrymalloc",
    b"ztrymalloc_usable",
    b"ztrymalloc_usable_internal",
    b"ztryrealloc",
    b"ztryrealloc_usable",
    b"ztryrealloc_usable_internal",
];

/// Functions of the C library. Every program may call them, so that they tell nothing of a program.
const LIBC: [&[u8]; 4] = [b"strdup", b"__strdup", b"strndup", b"__strndup"];

/// Returns true if a function that stands for malloc in programs or libraries in C has this name.
/// What a compiler appends to the name of a copy (`.part.0`) does not count.
pub fn of_c(name: &[u8]) -> bool {
    let end = name.iter().position(|&byte| byte == b'.').unwrap_or(name.len());
    name.get(..end).is_some_and(|name| C.binary_search(&name).is_ok())
}

/// Returns true if a function of the C library has this name and allocates for its caller.
pub fn of_libc(name: &[u8]) -> bool {
    LIBC.contains(&name)
}

/// Returns true if a function of C++'s libraries has this name and allocates for its caller.
pub(super) fn of_cxx(name: &[u8]) -> bool {
    begins(name, &CXX) && CXX_CLOSURES.iter().all(|part| after(name, part).is_none())
        || begins(name, &CXX_PROGRAMS)
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
            "_ZN3std3sys2fs8read_dir17h0E",
            "_ZN3std3sys3pal4unix2fs7readdir17h0E",
            "_ZN3std3sys4unix2fs7readdir17h0E",
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
            "_Znwm",
            "_ZnamSt11align_val_t",
            "_ZNSo3putEc",
            "_ZN2v88internal14AllocWithRetryEmPFPvmE",
            "_ZN3vecIP9tree_node7va_heap6vl_ptrE7reserveEjb",
        ] {
            assert!(of_cxx(name.as_bytes()), "{name}");
        }
        for name in [
            "main",
            "_Z10read_namesv",
            "_ZN2v88internal12BackingStore4GrowEv",
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

    #[test]
    fn functions_of_c_are_known_by_name() {
        assert!(C.is_sorted(), "the search halves the list");
        for name in [
            "xmalloc",
            "my_malloc",
            "zmalloc",
            "_PyObject_Malloc",
            "xmalloc.part.0",
            "zmalloc.cold",
        ] {
            assert!(of_c(name.as_bytes()), "{name}");
        }
        for name in ["", ".", "malloc", "main", "xmallocs", "xmallo", "zzz", "strdup", "rtx_alloc"]
        {
            assert!(!of_c(name.as_bytes()), "{name}");
        }
        assert!(of_libc(b"strdup") && !of_libc(b"xstrdup"));
    }
}
