//! `shim!`: an exported function that passes on its return address as one argument more.

/// `shim!(name, target, register of the extra argument on x86-64, and on aarch64)`.
macro_rules! shim {
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
