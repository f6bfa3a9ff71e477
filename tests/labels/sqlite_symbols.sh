# sqlite, built with symbols: what `sqlite.sh` does, with the database still open at the end.
# needs: gcc gcc
# needs: cargo cargo
# language: C
# symbols: all
# own: program
. "$LABELS/lib/labelled.sh"
cat >program.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include "sqlite3.h"
static char text[1 << 16];
static int print(void *none, int columns, char **values, char **names) {
    for (int i = 0; i < columns; i++) puts(values[i] ? values[i] : "");
    return 0;
}
int main(void) {
    sqlite3 *db;
    text[fread(text, 1, sizeof text - 1, stdin)] = 0;
    if (sqlite3_open(":memory:", &db) || sqlite3_exec(db, text, print, 0, 0)) abort();
}
C
build() {
    mkdir src
    printf '[package]\nname = "get"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nlibsqlite3-sys = "=0.30.1"\n[workspace]\n' >Cargo.toml
    echo 'fn main() {}' >src/main.rs
    cargo vendor --quiet "$PWD/vendor"
    local source=$PWD/vendor/libsqlite3-sys/sqlite3
    mkdir -p "$BUILT/sqlite"
    gcc -g -O1 -I"$source" program.c "$source/sqlite3.c" -lm -o "$BUILT/sqlite/program"
}
built sqlite/program build
ends "$BUILT/sqlite/program" <"$PROGRAMS/sales.sql"
