//! Link options of `libtoft_checked.so`.

fn main() {
    for argument in [
        "-Wl,-soname,libtoft_checked.so.0",
        "-Wl,-z,relro,-z,now",
        "-nostartfiles",
        "-Wl,-Bsymbolic",
        // It calls `__chk_fail` of the C library. Without this its file would not name that
        // library.
        "-lc",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
