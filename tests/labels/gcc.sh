# gcc's compiler proper on 1200 functions.
# needs: gcc gcc
# language: C++
# symbols: exported
# below: most of its functions have no symbol, and many that have one are *alloc* by name
# own: cc1
. "$LABELS/lib/labelled.sh"
awk -v n=1200 -f "$LABELS/lib/functions.awk" >large.c
ends "$(gcc -print-prog-name=cc1)" -quiet -O1 large.c -o large.s
