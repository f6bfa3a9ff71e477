//! A program that allocates, frees and resizes with one global allocator, and does nothing else: a
//! WebAssembly module whose memory grows, or firmware with 16 KiB.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::alloc::{alloc, dealloc, realloc};
use core::alloc::Layout;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

#[cfg(not(target_arch = "wasm32"))]
const SIZE: usize = 16 << 10;

macro_rules! toft {
    ($feature:literal, $shape:ident) => {
        #[cfg(feature = $feature)]
        mod chosen {
            use toft_arena::*;

            #[cfg(target_arch = "wasm32")]
            #[global_allocator]
            static ARENA: Wasm<shape::$shape> = Wasm::wasm();

            #[cfg(not(target_arch = "wasm32"))]
            array!(Memory, super::SIZE);

            // SAFETY: there is one thread.
            #[cfg(not(target_arch = "wasm32"))]
            #[global_allocator]
            static ARENA: Shared<shape::$shape, source::Once<Memory>, Unlocked> =
                Shared::new(Anywhere, source::Once::array(), unsafe { Unlocked::new() });
        }
    };
}

toft!("small", Small);
toft!("micro", Micro);
toft!("packed", Packed);
toft!("standard", Standard);
toft!("fast", Fast);
toft!("bare", Bare);
toft!("checked", Checked);

#[cfg(feature = "talc")]
mod chosen {
    #[cfg(target_arch = "wasm32")]
    #[global_allocator]
    static TALC: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

    #[cfg(not(target_arch = "wasm32"))]
    use talc::{base::binning::DefaultBinning, cell::TalcCell, cell::TalcSyncCell, source::Claim};

    #[cfg(not(target_arch = "wasm32"))]
    static mut MEMORY: [u8; super::SIZE] = [0; super::SIZE];

    // SAFETY: there is one thread, and only talc uses the memory.
    #[cfg(not(target_arch = "wasm32"))]
    #[global_allocator]
    static TALC: TalcSyncCell<Claim, DefaultBinning> =
        unsafe { TalcSyncCell::new(TalcCell::new(Claim::array(&raw mut MEMORY))) };
}

#[cfg(not(any(feature = "arena", feature = "talc")))]
mod chosen {
    use core::alloc::{GlobalAlloc, Layout};

    struct None;

    // SAFETY: it has no blocks.
    unsafe impl GlobalAlloc for None {
        unsafe fn alloc(&self, _: Layout) -> *mut u8 {
            core::ptr::null_mut()
        }
        unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
        unsafe fn realloc(&self, _: *mut u8, _: Layout, _: usize) -> *mut u8 {
            core::ptr::null_mut()
        }
    }

    #[global_allocator]
    static NONE: None = None;
}

/// Makes the call of this number. There is one entry, for firmware keeps what its entry reaches.
///
/// # Safety
/// 1. As the call's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _start(
    call: u32,
    block: *mut u8,
    size: usize,
    align: usize,
    new: usize,
) -> *mut u8 {
    // SAFETY: by 1.
    unsafe {
        let layout = Layout::from_size_align_unchecked(size, align);
        match call {
            0 => alloc(layout),
            1 => realloc(block, layout, new),
            #[cfg(feature = "zeroed")]
            2 => alloc::alloc::alloc_zeroed(layout),
            _ => {
                dealloc(block, layout);
                block
            }
        }
    }
}
