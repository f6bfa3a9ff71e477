# ripgrep, built with symbols, searches the sources of this repository.
# needs: cargo cargo
# language: Rust
# symbols: all
# own: rg
# timeout: 1200
. "$LABELS/lib/labelled.sh"
built bin/rg cargo install --quiet --locked --root "$BUILT" ripgrep --version 14.1.1
ends "$BUILT/bin/rg" --threads 2 --count 'fn (\w+)_(\w+)' "$SOURCES"
