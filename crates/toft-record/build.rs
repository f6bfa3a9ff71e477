//! Link options of `libtoft_record.so`.

fn main() {
    // Threads end, and the program does, after the code that loaded the library is gone.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
