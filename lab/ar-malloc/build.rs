//! Link options of `libtoft_ar_malloc.so`.

fn main() {
    // The destructor of a thread key runs after any call of dlclose.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
