//! Protection-key gate for the calls in `calls.rs`. Where `TOFT_PKEY` is on, only the calling
//! thread can write to the allocator's tables, and only during a call. Secure build only; in the
//! other build these are the calls themselves, without an extra instruction.
//!
//! A thread that is older than the key, and a signal handler, can at first not even read the
//! tables. So every call goes through the gate, also one that only reads. A handler that interrupts
//! a call finds the gate closed, and opens and closes it for itself. The interrupted call then goes
//! on inside: the kernel keeps its register.

#[cfg(not(feature = "secure-light"))]
pub use super::calls::*;
#[cfg(not(feature = "secure-light"))]
pub use super::scope::{
    at_exit, linked_at_exit, linked_at_start, verifies_at_exit, verify_as_asked,
};
#[cfg(not(feature = "secure-light"))]
pub use super::whole_heap::*;

#[cfg(feature = "secure-light")]
mod closed {
    use super::super::calls as process;
    use super::super::{scope, whole_heap};
    use crate::allocator::Allocator;
    use crate::allocator::inside;
    use crate::os::Linux;
    use crate::region::Site;
    use crate::report::Call;
    use crate::sync::AtomicU64;
    use core::ffi::c_void;
    use core::ptr::NonNull;

    type Pointer = *mut c_void;

    /// As the call of that name in `calls.rs`.
    macro_rules! gated {
        ($(unsafe fn $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;)*) => { $(
            #[doc = concat!("`process::", stringify!($name), "` with the key open.")]
            ///
            /// # Safety
            /// 1. As there.
            #[inline(always)]
            pub unsafe fn $name($($argument: $kind),*) $(-> $result)? {
                // SAFETY: (1) the caller's.
                inside(|| unsafe { process::$name($($argument),*) })
            }
        )* };
        ($from:ident: $(fn $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;)*) => { $(
            #[doc = concat!("`process::", stringify!($name), "` with the key open.")]
            pub fn $name($($argument: $kind),*) $(-> $result)? {
                inside(|| $from::$name($($argument),*))
            }
        )* };
    }

    gated! {
        unsafe fn malloc_at(size: usize, site: Site) -> Pointer;
        unsafe fn calloc_at(count: usize, size: usize, site: Site) -> Pointer;
        unsafe fn aligned_at(align: usize, size: usize, site: Site) -> Pointer;
        unsafe fn realloc_at(address: Pointer, size: usize, site: Site) -> Pointer;
        unsafe fn free_for(address: Pointer, call: Call);
        unsafe fn free_sized_for(address: Pointer, size: usize, align: usize, call: Call);
        unsafe fn free(address: Pointer);
        unsafe fn free_permanently(address: Pointer);
        unsafe fn usable_size(address: Pointer) -> usize;
        unsafe fn usable_size_for(address: Pointer, call: Call) -> Option<usize>;
        unsafe fn resize_in_place(address: Pointer, size: usize, call: Call) -> Option<usize>;
        unsafe fn at_start(argc: usize, argv: *mut *mut u8);
    }
    /// `process::site_behind` with the key open.
    ///
    /// # Safety
    /// 1. As there.
    pub unsafe extern "C" fn site_behind(stack: usize, frame: usize) -> Site {
        // SAFETY: (1) the caller's.
        inside(|| unsafe { process::site_behind(stack, frame) })
    }

    gated! { whole_heap:
        fn purge() -> usize;
        fn trim() -> usize;
        fn compact() -> usize;
        fn page_out_cold() -> usize;
        fn instance() -> Option<&'static Allocator<Linux>>;
        fn before_filter();
        fn filter_refused();
        fn watch_filters();
        fn stop_reclaimer() -> bool;
        fn allow_reclaimer();
        fn deepbind_is_cleared();
        fn verify() -> bool;
        fn check_range(call: Call, writes: bool, address: usize, bytes: usize);
        fn misuses() -> usize;
        fn interface_page() -> Option<NonNull<u8>>;
        fn thread_bytes() -> Option<&'static [AtomicU64; 2]>;
        fn give_exit_key() -> bool;
    }
    gated! { scope:
        fn at_exit();
        fn verify_as_asked();
        fn verifies_at_exit() -> bool;
        fn linked_at_start(code: usize);
        fn linked_at_exit();
    }
}

#[cfg(feature = "secure-light")]
pub use closed::{
    aligned_at, allow_reclaimer, at_exit, at_start, before_filter, calloc_at, check_range, compact,
    deepbind_is_cleared, filter_refused, free, free_for, free_permanently, free_sized_for,
    give_exit_key, instance, interface_page, linked_at_exit, linked_at_start, malloc_at, misuses,
    page_out_cold, purge, realloc_at, resize_in_place, site_behind, stop_reclaimer, thread_bytes,
    trim, usable_size, usable_size_for, verifies_at_exit, verify, verify_as_asked, watch_filters,
};

/// Does something while Toft has no thread.
pub fn without_thread<R>(body: impl FnOnce() -> R) -> R {
    let _stopped = Stopped(stop_reclaimer());
    body()
}

/// Lets the reclaimer's thread start again when it is dropped, also if the body has panicked.
struct Stopped(bool);

impl Drop for Stopped {
    fn drop(&mut self) {
        if self.0 {
            allow_reclaimer();
        }
    }
}
