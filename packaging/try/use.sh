# What a user does with an installed command, given as words: run one program, inspect one heap.
set -eu
test "$("$@" run -- sh -c 'echo "runs as $0"' sh)" = "runs as sh"
"$@" run -- cat /dev/zero >/dev/null &
# It may take a moment until it has allocated.
tries=0
until "$@" heap $! >heap.txt 2>error.txt; do
    tries=$((tries + 1))
    if [ $tries = 600 ]; then cat error.txt; exit 1; fi
    sleep 0.1
done
grep -q '^process .*(cat)' heap.txt
head -n 5 heap.txt
kill $!
"$@" bench list >list.txt
grep -q replace-100k list.txt
