//! Link options of `libtoft_checked.so`.

fn main() {
    for argument in [
        "-Wl,-soname,libtoft_checked.so.0",
        "-Wl,-z,relro,-z,now",
        "-nostartfiles",
        "-Wl,-Bsymbolic",
        // It asks for one function of the C library, and without this names nobody who has it.
        "-lc",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
