# Runs the archive for aarch64 under qemu: the command, and programs with the library, linked and
# preloaded. aarch64.sh ARCHIVE
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tar -xf "$1"
folder=$(pwd)/$(basename "$1" .tar.gz)
run="qemu-aarch64 -L /usr/aarch64-linux-gnu"
$run "$folder/bin/toft" --version
cc="aarch64-linux-gnu-gcc $here/program.c -I $folder/include"
$cc -o shared -L "$folder/lib" -ltoft -Wl,-rpath,"$folder/lib" -pthread
$cc -o secure -L "$folder/lib" -ltoft-secure -Wl,-rpath,"$folder/lib" -pthread
$cc -o static -static "$folder/lib/libtoft.a" -pthread
for program in shared secure static; do $run ./$program | grep '^toft '; done
echo '#include <stdlib.h>
int main(void) { free(malloc(100)); return 0; }' > plain.c
aarch64-linux-gnu-gcc -O0 plain.c -o plain
$run -E LD_PRELOAD="$folder/lib/libtoft.so" -E TOFT_STATS=1 ./plain 2>&1 | grep -m1 toft
rm -r "$folder"
