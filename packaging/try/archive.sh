# Unpacks an archive as a user who is not root, uses the command, links a program, finds lines with
# gdb, and removes it. archive.sh ARCHIVE
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tar -xf "$1"
folder=$(pwd)/$(basename "$1" .tar.gz)
export HOME="$PWD/home" TMPDIR="$PWD/tmp"
mkdir "$HOME" "$TMPDIR"
sh "$here/use.sh" "$folder/bin/toft"
if [ -d "$folder/lib" ]; then
    export PKG_CONFIG_PATH="$folder/lib/pkgconfig"
    gcc "$here/program.c" -o shared $(pkg-config --cflags --libs toft) -Wl,-rpath,"$folder/lib"
    gcc "$here/program.c" -o static -static $(pkg-config --cflags --libs --static toft)
    ./shared | grep '^toft '
    ./static | grep '^toft '
    # Stripped: lines come from the debug files, which are unpacked in the same place.
    gdb -batch -ex 'info line toft_version' "$folder/lib/libtoft.so" 2>&1 | grep -q '^No line number'
    tar -xf "${1%.tar.gz}-debug.tar.gz"
    gdb -batch -ex 'info line toft_version' "$folder/lib/libtoft.so" | grep '^Line [0-9]* of '
    gdb -batch -ex 'info line main' "$folder/bin/toft" | grep '^Line [0-9]* of'
fi
rm -r "$folder"
# The command keeps its library in the user's cache, as docs/start/install.md says.
rm -r "$HOME/.cache/toft"
test -z "$(find . -name '*toft*')"
