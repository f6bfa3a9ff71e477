# sqlite3 of the distribution: tables, indexes, a join.
# needs: sqlite3 sqlite3
# language: C
# symbols: none
# below: it has no symbols; *sqlite_symbols* is the same with symbols
# own: sqlite3 libsqlite3
. "$LABELS/lib/labelled.sh"
ends sqlite3 :memory: <"$PROGRAMS/sales.sql"
