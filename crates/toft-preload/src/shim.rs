//! `shim!`: an exported function that passes on its return address as one argument more.

/// `shim!(name, target, register of the extra argument on x86-64, and on aarch64)`.
macro_rules! shim {
    ($name:ident, $target:path, $x86:literal, $arm:literal) => {
        toft_core::call_site_shim!(
            #[doc = concat!("`", stringify!($name), "`: passes its return address on as the call site.")]
            #[unsafe(no_mangle)]
            pub fn $name(), $target, $x86, $arm
        );
    };
}

/// As `shim!`, for a target that looks through wrappers itself.
#[cfg(not(feature = "secure-light"))]
macro_rules! short_shim {
    ($name:ident, $target:path, $x86:literal, $arm:literal) => {
        toft_core::short_call_site_shim!(
            #[doc = concat!("`", stringify!($name), "`: passes its return address on as the call site.")]
            #[unsafe(no_mangle)]
            pub fn $name(), $target, $x86, $arm
        );
    };
}
