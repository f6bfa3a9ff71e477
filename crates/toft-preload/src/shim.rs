//! `shim!`: an exported function that passes on its return address as one argument more.
//!
//! Where wrappers are looked through (`TOFT_WRAPPERS`), it asks who called the wrapper and passes
//! that on. `malloc` itself is asked on its slow path, in the default build.

/// `shim!(name, target, register of the extra argument on x86-64, and on aarch64)`.
macro_rules! shim {
    ($name:ident, $target:path, $x86:literal, $arm:literal) => {
        #[doc = concat!("`", stringify!($name), "`: passes its return address on as the call site.")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "cmp qword ptr [rip + {global} + {through}], 0",
                "jne 2f",
                concat!("mov ", $x86, ", [rsp]"),
                "jmp {target}",
                "2:",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "push rdx",
                ".cfi_adjust_cfa_offset 8",
                "lea rdi, [rsp + 24]",
                "mov rsi, rbp",
                "call {behind}",
                "pop rdx",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                concat!("mov ", $x86, ", rax"),
                "jmp {target}",
                ".cfi_endproc",
                global = sym toft_core::process::GLOBAL,
                through = const toft_core::process::LOOKS_THROUGH,
                behind = sym toft_core::process::site_behind,
                target = sym $target,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(concat!("mov ", $arm, ", x30"), "b {}", sym $target);
        }
    };
}

/// As `shim!`, as short as can be: for a target that looks through wrappers itself.
#[cfg(not(feature = "secure-light"))]
macro_rules! short_shim {
    ($name:ident, $target:path, $x86:literal, $arm:literal) => {
        #[doc = concat!("`", stringify!($name), "`: passes its return address on as the call site.")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(concat!("mov ", $x86, ", [rsp]"), "jmp {}", sym $target);
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(concat!("mov ", $arm, ", x30"), "b {}", sym $target);
        }
    };
}
