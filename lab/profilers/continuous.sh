#!/bin/sh
# Compares what Parca scrapes from `toft metrics --listen` with what `toft heap` reads.
#
#   lab/profilers/continuous.sh TOFT PARCA
#
# TOFT is the command `toft`, PARCA the program `parca`. A program with sampled stacks (CPython) is
# at rest while both read it. Then it allocates more, and both read it again. Each time both must
# have the same bytes for each function. Ends with 0 and the line `success`, or with 1 and the
# differences. Everything listens at 127.0.0.1.
#
#   PORT   Where Parca listens: 17070 by default.
#
# Needs curl, go, jq and python3.
set -eu
page=$(cd "$(dirname "$0")/../../docs" && pwd)/metrics.md
toft=$1 parca=$2 port=${PORT:-17070}
folder=$(mktemp -d)
jobs=
trap 'kill $jobs 2>/dev/null; wait; rm -rf "$folder"' EXIT
cd "$folder"
export PPROF_TMPDIR="$folder"

# wait_for COMMAND...: runs it again until it succeeds, for a minute.
wait_for() {
    for _ in $(seq 120); do
        if "$@"; then return; fi
        sleep 0.5
    done
    echo "failure: no result after a minute: $*" >&2
    tail -n 20 messages errors parca.log >&2
    exit 1
}

cat >program.py <<'END'
import json, os, sys
kept = []
for line in sys.stdin:
    rows = [{"id": i, "name": "row %d" % i, "values": list(range(i % 20))} for i in range(20000)]
    kept.append(json.loads(json.dumps(rows)))
    print(os.getpid(), flush=True)
END
mkfifo lines
"$toft" run --python --sample 64k -- "$(python3 -c 'import sys; print(sys.executable)')" program.py \
    <>lines >pids 2>messages &
jobs=$!

# has_grown TURN: whether the program is at rest again.
has_grown() { [ "$(wc -l <pids)" -ge "$1" ]; }

# grow TURN: has the program allocate. What is scraped a second later is of its rest.
grow() {
    echo >lines
    wait_for has_grown "$1"
    sleep 1
    since=$(date -u +%Y-%m-%dT%H:%M:%SZ)
}

grow 1
pid=$(head -n 1 pids)
"$toft" metrics "$pid" --listen 127.0.0.1:0 2>address &
jobs="$jobs $!"
wait_for grep -qs listening address
address=$(sed 's|.*http://||; s|/.*||' address)

# The job of the page, at this address and more often.
{
    printf 'object_storage: { bucket: { type: FILESYSTEM, config: { directory: data } } }\n'
    sed -n '/^scrape_configs:/,/^```/p' "$page" |
        sed "/\`/d; s/127.0.0.1:9464/$address/; s/interval: .*/interval: 1s/"
} >parca.yaml
# Names are in the profiles: Parca asks no server for them.
"$parca" --config-path=parca.yaml --http-address="127.0.0.1:$port" \
    --debuginfod-upstream-servers=127.0.0.1:9 >parca.log 2>&1 &
jobs="$jobs $!"

# ask PATH NAME=VALUE...: a question to Parca.
ask() {
    path=$1
    shift
    for pair; do
        set -- "$@" --data-urlencode "$pair"
        shift
    done
    curl -fsSG "http://127.0.0.1:$port/api/profiles/$path" "$@"
}

# scraped QUERY: writes the time of the first profile since the program is at rest.
scraped() {
    {
        ask query_range "query=$1" "start=$since" "end=$(date -u +%Y-%m-%dT%H:%M:%SZ)" |
            jq -re '.series[0].samples[0].timestamp'
    } >time 2>errors
}

# table FILE VALUE: bytes and name of each function, and their sum.
table() {
    go tool pprof -top -unit=B -nodecount=100000 -nodefraction=0 -sample_index="$2" "$1" 2>/dev/null |
        sed -n 's/^Showing nodes accounting for \([0-9]*B\).*/\1 in all/p
                s/^ *\([0-9]*B\).*% *\([0-9]*B\) *[0-9.]*% *\(.*\)/\1 \2 \3/p' | sort
}

for turn in 1 2; do
    [ $turn = 1 ] || grow $turn
    "$toft" heap "$pid" -o heap.pb.gz 2>/dev/null
    for name in memory:inuse_space memory:alloc_space allocs:sampled_inuse_space allocs:sampled_alloc_space; do
        query="$name:bytes:space:bytes{job=\"toft\"}"
        wait_for scraped "$query"
        ask query mode=MODE_SINGLE_UNSPECIFIED report_type=REPORT_TYPE_PPROF \
            "single.query=$query" "single.time=$(cat time)" | jq -r .pprof | base64 -d >parca.pb.gz
        table heap.pb.gz "${name#*:}" >ours
        table parca.pb.gz 0 >theirs
        if ! [ -s ours ] || ! diff ours theirs; then
            echo "failure: $name, turn $turn: Parca (>) has other figures than toft heap (<)" >&2
            exit 1
        fi
        echo "turn $turn: $name: $(grep 'in all' ours), $(wc -l <ours) functions"
    done
done
echo success
