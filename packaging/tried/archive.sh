# The archive, unpacked by a user who is not root: the command, a program in C by pkg-config, and nothing left.
# tried/archive.sh ARCHIVE
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tar -xf "$1"
folder=$(pwd)/$(basename "$1" .tar.gz)
export HOME="$PWD/home" TMPDIR="$PWD/tmp"
mkdir "$HOME" "$TMPDIR"
sh "$here/use.sh" "$folder/bin/toft"
if [ -d "$folder/lib" ]; then
    echo '#include <toft.h>
#include <stdio.h>
int main(void) { puts(toft_version()); return 0; }' > version.c
    export PKG_CONFIG_PATH="$folder/lib/pkgconfig"
    cc version.c -o shared $(pkg-config --cflags --libs toft) -Wl,-rpath,"$folder/lib"
    cc version.c -o static -static $(pkg-config --cflags --libs --static toft)
    ./shared
    ./static
fi
rm -r "$folder"
