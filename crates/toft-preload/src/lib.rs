//! Toft as a drop-in malloc: the C and C++ names, and nothing else.
//!
//! Each name that allocates is a shim (`shim.rs`) that adds the address it will return to, the call
//! site, to its arguments, and jumps to the function of the same meaning in `toft_core::process`;
//! `malloc`'s has two instructions. This is the only crate that exports `malloc`, and nothing
//! depends on it.
//!
//! | file | names |
//! |---|---|
//! | `c.rs` | the C and POSIX allocation functions, and glibc's own names for them |
//! | `cxx.rs` | `operator new` and `operator delete` in all their forms |
//! | `glibc.rs` | `mallinfo`, `malloc_info`, `malloc_stats`, `mallopt`, `malloc_trim` |
//! | `jemalloc/` | jemalloc's extended interface: `mallocx`, `mallctl` and the others |
//! | `filter.rs` | `prctl` and `syscall`, to learn of filters of system calls |
//! | `credentials.rs` | `setuid`, `unshare` and their kind, before which Toft's thread ends |
//! | `deepbind.rs` | `dlopen`, `dlmopen`, for libraries opened with `RTLD_DEEPBIND`; glibc only |
//! | `redirect.rs` | how these find the process's malloc |
//! | `token.rs` | allocation by a number of the program's own |
//! | `zones.rs` | private zones: `toft_zone_create` and its family |
//! | `keys.rs` | `pthread_key_create`, for programs that want every key; glibc only |
//! | `life.rs` | what happens when the library is loaded and when the program ends |

// Without std in what ships, which aborts. A dev build unwinds, as tests do, and is there to be
// checked only.
#![cfg_attr(panic = "abort", no_std)]

#[cfg(all(panic = "unwind", not(debug_assertions)))]
compile_error!("this library needs panic = \"abort\": std has no place inside malloc");

#[macro_use]
mod shim;
mod c;
mod credentials;
mod cxx;
#[cfg(all(target_env = "gnu", feature = "deepbind"))]
mod deepbind;
mod filter;
mod glibc;
#[cfg(feature = "jemalloc")]
mod jemalloc;
#[cfg(target_env = "gnu")]
mod keys;
mod life;
#[cfg(all(target_env = "gnu", feature = "deepbind"))]
mod redirect;
#[cfg(feature = "tokens")]
mod token;
#[cfg(feature = "zones")]
mod zones;

use toft_core::hook::Hook;
use toft_core::process;

/// The functions of the crates above the core that this library has.
static HOOK: Hook = {
    let hook = Hook::NONE;
    #[cfg(feature = "zones")]
    let hook = toft_zone::with(hook);
    #[cfg(feature = "watch")]
    let hook = toft_watch::with(hook);
    hook
};
toft_core::hook!(HOOK);

/// Nothing here panics; a symbol of this must exist all the same.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    toft_core::os::process::abort()
}

// The atomic operations of the compiler's own library are functions on this architecture, and their
// unwind tables name a function of `std`. Nothing unwinds here, and the name must exist all the
// same; one of `std` has precedence.
#[cfg(all(not(test), target_arch = "aarch64"))]
core::arch::global_asm!(
    ".weak rust_eh_personality",
    ".hidden rust_eh_personality",
    ".type rust_eh_personality, %function",
    "rust_eh_personality:",
    "brk #1",
    ".size rust_eh_personality, . - rust_eh_personality",
);
