# The figures of `INFO memory` that Redis asks its allocator for by jemalloc's mallctl, and its
# `MEMORY PURGE`: with data, and after a flush. The memory of a value that was cut off. On libc they
# are jemalloc's own.
# needs: redis-server redis-server
# needs: redis-cli redis-tools
# timeout: 300
. "$PROGRAMS/lib/serve.sh"
port=$(port)
cli() { redis-cli -p "$port" "$@"; }
serve redis-server --port "$port" --bind 127.0.0.1 --save '' --daemonize no
ready cli ping
# Fails if a figure is not plausible. Redis takes them ten times a second.
plausible() {
    cli info memory | tr -d '\r' | awk -F: -v least="$1" -v most="$2" '
        { is[$1] = $2 }
        END {
            used = is["used_memory"]; live = is["allocator_allocated"]
            active = is["allocator_active"]; resident = is["allocator_resident"]
            exit !(live >= 0.8 * used && live <= 1.6 * used && live >= least && live <= most &&
                active >= live && resident >= active && is["allocator_frag_ratio"] >= 1 &&
                is["allocator_frag_ratio"] <= 3)
        }'
}
# The second value is taken over with the query buffer of the first, and then cut off. Its memory is
# the usable bytes of its block: Redis's own tests expect less than 42 000.
value() { head -c "$1" /dev/zero | tr '\0' v; }
cut_off() {
    printf '%s\n' "set big $(value 100000)" "set big $(value 33000)" 'memory usage big' | cli | tail -n 1
}
[ "$(cut_off)" -lt 42000 ] && echo 'cut off'
cli del big
each=$((100000 * times))
fill="for i = 1, $each do redis.call('set', 'key:' .. i, string.rep('v', 300)) end return 'filled'"
cli eval "$fill" 0
ready plausible $((each * 300)) $((each * 800))
cli memory purge
cli memory malloc-stats | grep -c 'allocated' >/dev/null && echo printed
resident() { cli info memory | tr -d '\r' | sed -n 's/^used_memory_rss://p'; }
before=$(resident)
cli flushall sync
cli memory purge
released() { [ "$(resident)" -lt $((before / 2)) ]; }
ready released
# As little as at the start, beside what the allocator keeps.
small() {
    cli info memory | tr -d '\r' | awk -F: '
        $1 == "allocator_allocated" { live = $2 } $1 == "used_memory" { used = $2 }
        END { exit !(live >= 0.8 * used && live < 9000000) }'
}
ready small
echo small
idle
stop TERM
grep -c 'ready to accept' -i server.log
