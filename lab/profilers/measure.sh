#!/bin/sh
# Time and peak memory of two programs under memory profilers, for the table of docs/profiles.md.
#
#   lab/profilers/measure.sh TOFT [ROUNDS]
#
# TOFT is the command `toft`. Prints a row for each tool: medians of the rounds, relative to glibc's
# malloc without a profiler. The rounds are interleaved. What is not installed is left out, with a
# line on stderr.
#
#   PREFIX   Words before each command, as in PREFIX="chrt -f 50 taskset -c 1". Not before
#            heaptrack: it waits for a lock in a loop, and never ends at a real-time priority.
#   MEMRAY   The command memray.
#   TOOLS    The tools to run, besides glibc's malloc. All by default.
#
# Debian: gcc python3 time heaptrack valgrind libjemalloc2 libgoogle-perftools4. PyPI: memray.
set -eu
toft=$1
rounds=${2:-3}
libs=/usr/lib/$(gcc -print-multiarch)
jemalloc=$libs/libjemalloc.so.2 gperftools=$libs/libtcmalloc.so.4
memray=${MEMRAY:-memray}
functions=$(cd "$(dirname "$0")/../../tests/labels/lib" && pwd)/functions.awk
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir results

awk -v n=600 -f "$functions" >program.c
cat >program.py <<'END'
import json
kept = []
for turn in range(6):
    rows = [{"id": i, "name": "row %d" % i, "values": list(range(i % 20))} for i in range(20000)]
    kept.append(json.loads(json.dumps(rows)))
    if turn % 2:
        kept.clear()
END
cc1="$(gcc -print-prog-name=cc1) -quiet -O1 program.c -o program.s"
python="$(python3 -c 'import sys; print(sys.executable)') program.py"

# once TOOL PROGRAM COMMAND...: one run; appends seconds and KiB to results/TOOL.PROGRAM.
once() {
    file=results/$1.$2
    shift 2
    # The tools end with the status of the program or their own; what fails is named.
    /usr/bin/time -a -o "$file" -f '%e %M' ${PREFIX:-} "$@" >out 2>&1 ||
        { echo "failed: $*" >&2; tail -3 out >&2; }
    rm -rf memray.bin* heaptrack.* massif.out* dhat.out* profile.html* heap.*
}

wanted() { case " ${TOOLS:-$1} glibc " in *" $1 "*) ;; *) false ;; esac; }

# each TOOL WORDS...: both programs once, after these words.
each() {
    tool=$1
    shift
    wanted "$tool" || return 0
    for program in cc1 python; do
        case $program in cc1) line=$cc1 ;; python) line=$python ;; esac
        once "$tool" $program "$@" $line
    done
}

there() { command -v "$1" >/dev/null || [ -e "$1" ] || { [ "$round" = 1 ] && echo "not there: $1" >&2; false; }; }

for round in $(seq "$rounds"); do
    each glibc env
    each toft "$toft" run --
    each toft-sample "$toft" run --sample 512k --
    each toft-profile "$toft" run --profile profile.html --
    if there "$jemalloc"; then
        each jemalloc env LD_PRELOAD="$jemalloc"
        each jemalloc-prof env LD_PRELOAD="$jemalloc" \
            MALLOC_CONF=prof:true,lg_prof_sample:19,prof_final:true,prof_prefix:heap
    fi
    if there "$gperftools"; then
        each gperftools env LD_PRELOAD="$gperftools"
        each gperftools-heap env LD_PRELOAD="$gperftools" HEAPPROFILE=heap
    fi
    if there heaptrack; then PREFIX= each heaptrack heaptrack --raw; fi
    if there valgrind; then
        each massif valgrind -q --tool=massif --massif-out-file=massif.out
        each dhat valgrind -q --tool=dhat --dhat-out-file=dhat.out
    fi
    if wanted memray && there "$memray"; then once memray python "$memray" run -q -f -o memray.bin program.py; fi
    if wanted tracemalloc; then once tracemalloc python env PYTHONTRACEMALLOC=1 $python; fi
done

# median FILE COLUMN
median() { sort -n -k "$2,$2" "results/$1" | awk -v c="$2" '{ v[NR] = $c } END { print v[int((NR + 1) / 2)] }'; }

# ratio TOOL PROGRAM COLUMN
ratio() {
    [ -e "results/$1.$2" ] || { echo -; return; }
    awk -v a="$(median "$1.$2" "$3")" -v b="$(median "glibc.$2" "$3")" 'BEGIN { printf "%.2f", a / b }'
}

printf '%-16s %10s %8s %12s %8s\n' tool 'cc1: time' memory 'Python: time' memory
for tool in toft toft-sample toft-profile jemalloc jemalloc-prof gperftools gperftools-heap heaptrack \
    massif dhat memray tracemalloc; do
    printf '%-16s %10s %8s %12s %8s\n' "$tool" "$(ratio $tool cc1 1)" "$(ratio $tool cc1 2)" \
        "$(ratio $tool python 1)" "$(ratio $tool python 2)"
done
for program in cc1 python; do
    echo "glibc, $program: $(median glibc.$program 1) s, $(median glibc.$program 2) KiB"
done
