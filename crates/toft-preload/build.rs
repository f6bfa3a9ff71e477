//! Link options of `libtoft.so`.

fn main() {
    // Programs may link against it: libtoft.so.0 is the name of this interface.
    let has = |feature: &str| std::env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    let build = match (has("SECURE"), has("SECURE_LIGHT")) {
        (true, _) => "-secure",
        (false, true) => "-secure-light",
        (false, false) => "",
    };
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtoft{build}.so.0");
    for argument in [
        // Blocks outlive the code that loaded the library, and so must the code that takes them
        // back.
        "-Wl,-z,nodelete",
        // Relocations are done at load time and their memory is read-only afterwards.
        "-Wl,-z,relro,-z,now",
        // No start files: they would bring a writable byte into the data that is made read-only.
        "-nostartfiles",
        // Code has the same offset in the file as in memory: perf takes the address in a probe's
        // note for an offset in the file, and would set its probe elsewhere. A linker that does
        // that anyway does not know the word, and says so.
        "-Wl,-z,separate-loadable-segments",
        // Our own calls among these names are ours, whatever else is preloaded.
        "-Wl,-Bsymbolic",
        // The bindings to libc name the library only where no other package of the same build has
        // them leave that to `std`. Without it the loader would bind the oldest version of each
        // function: for memcpy one that is slower.
        "-lc",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    // Code that every program runs lies side by side, where the linker can do that.
    if takes_scripts() {
        let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo says where it lies");
        println!("cargo:rustc-cdylib-link-arg=-Wl,-T,{folder}/usual.ld");
    }
    println!("cargo:rerun-if-changed=usual.ld");
    println!("cargo:rerun-if-changed=build.rs");
}

/// Whether the linker reads scripts that add to its own: LLVM's and GNU's do. Others are used by
/// who names them.
fn takes_scripts() -> bool {
    const WITHOUT: [&str; 3] = ["gold", "mold", "wild"];
    let names = ["CARGO_ENCODED_RUSTFLAGS", "RUSTC_LINKER"].map(std::env::var);
    !names.iter().flatten().any(|words| WITHOUT.iter().any(|linker| words.contains(linker)))
}
