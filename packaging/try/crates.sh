# Installs the command with a folder in the place of crates.io, as a user who has nothing else,
# inspects heaps with it, removes it, and checks that nothing is left. crates.sh FOLDER
set -eu
export HOME="$PWD/home" CARGO_HOME="$PWD/home/.cargo" CARGO_TERM_PROGRESS_WHEN=never
mkdir -p "$CARGO_HOME"
cat > "$CARGO_HOME/config.toml" << END
[source.crates-io]
replace-with = "folder"
[source.folder]
directory = "$1"
[net]
offline = true
END
toft="$CARGO_HOME/bin/toft"

# Starts a program that prints `ready` and waits until its input ends, and inspects its heap.
heap() {
    mkfifo input
    "$@" < input > output &
    exec 3> input
    until grep -q '^ready$' output; do
        kill -0 $!
        sleep 0.1
    done
    "$toft" heap $!
    exec 3>&-
    # A shell's `read` at the end of its input is 1.
    wait $! || test $? -eq 1
    rm input output
}

echo '==> cargo install toft-cli'
cargo install toft-cli

echo "==> an ordinary program on the command's library"
heap "$toft" run --strict -- sh -c 'echo ready; read line' > heap.txt
cat heap.txt
grep -q 'call site' heap.txt

echo '==> a program with the published crate as its allocator, by the README'
cargo new --quiet --vcs none program
cat > program/src/main.rs << 'END'
#[global_allocator]
static ALLOCATOR: toft::Toft = toft::Toft;

fn main() {
    let names: Vec<String> = (0..20_000).map(|i| format!("name {i}")).collect();
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    assert_eq!(names[7], "name 7");
}
END
(cd program && cargo add --quiet toft && cargo build --quiet)
# It brings nothing but libc.
test "$(sed -n 's/^name = //p' program/Cargo.lock | tr -d '\n')" = '"libc""program""toft""toft-core""toft-watch""toft-zone"'
heap program/target/debug/program > heap.txt
cat heap.txt
grep -q 20 heap.txt

echo '==> cargo uninstall toft-cli'
cargo uninstall toft-cli
# The command keeps its library in the user's cache, as docs/start/install.md says.
rm -r "$HOME/.cache/toft" program
test -z "$(find . -name '*toft*')"
! grep -l toft-cli "$CARGO_HOME"/.crates*
