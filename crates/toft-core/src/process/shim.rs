//! The functions in front of the calls of this crate: each passes on its return address as one
//! argument more, the call site.

/// `call_site_shim!(a function without a body, target, register of the extra argument on x86-64,
/// and on aarch64)`: where wrappers are looked through (`TOFT_WRAPPERS`), the function asks
/// who called the wrapper and passes that on.
#[doc(hidden)]
#[macro_export]
macro_rules! call_site_shim {
    (
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?,
        $target:path, $x86:literal, $arm:literal
    ) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        $visibility unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
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
                global = sym $crate::process::GLOBAL,
                through = const $crate::process::LOOKS_THROUGH,
                behind = sym $crate::process::site_behind,
                target = sym $target,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(concat!("mov ", $arm, ", x30"), "b {}", sym $target);
        }
    };
}

/// As [`call_site_shim!`], as short as can be: for a target that looks through wrappers itself,
/// which malloc does on its slow path, in the default build.
#[doc(hidden)]
#[macro_export]
macro_rules! short_call_site_shim {
    (
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?,
        $target:path, $x86:literal, $arm:literal
    ) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        $visibility unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(concat!("mov ", $x86, ", [rsp]"), "jmp {}", sym $target);
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(concat!("mov ", $arm, ", x30"), "b {}", sym $target);
        }
    };
}
