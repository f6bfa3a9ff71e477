# What scripts of servers share. The server runs on the allocator under test, its clients on libc.
#
# The runner follows a script by events: a line into $EVENTS, then its answer from $ANSWERS. It
# counts the processor time and memory of the server's processes between `begin` and `end`, and
# checks the idle server with the command `toft` at `idle`.

library=${LD_PRELOAD:-}
unset LD_PRELOAD

tell() {
    [ -n "${EVENTS:-}" ] || return 0
    echo "$*" >"$EVENTS"
    local answer
    read -r answer <"$ANSWERS"
    [ "$answer" = ok ] || { echo "$answer" >&2; return 1; }
}

# A command on the allocator under test.
on_library() { LD_PRELOAD=$library "$@"; }

# Starts a server in the background, in its own session so that nothing of it is left behind.
serve() {
    (
        export LD_PRELOAD=$library
        exec setsid "$@" >>server.log 2>&1
    ) &
    server=$!
    trap 'stop KILL' EXIT
    tell server $server
}

# A server that refuses to run as root runs as `nobody`.
unprivileged=()
if [ "$(id -u)" = 0 ]; then
    unprivileged=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
fi

# Sends a signal to all processes of the server and waits for the first one.
stop() {
    trap - EXIT
    [ "$1" = KILL ] && kill -KILL -- "-$server" 2>/dev/null || kill "-$1" "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    [ "$1" = KILL ] || kill -KILL -- "-$server" 2>/dev/null || true
    # The library reports on standard error, which is the server's log.
    grep '^toft' server.log >&2 || true
}

# Waits until a command succeeds; a server that has exited ends the wait.
ready() {
    until "$@" >/dev/null 2>&1; do
        kill -0 "$server" 2>/dev/null || { cat server.log >&2; return 1; }
        sleep 0.1
    done
}

# Runs a load of N requests: `load N COMMAND`. A load that fails fails the script.
load() {
    local requests=$1
    shift
    tell begin
    "$@" >load.log 2>&1 || { cat load.log >&2; tail -n 20 server.log >&2; return 1; }
    tell end "$requests"
}

# The server rests for a while, then its memory is measured and `toft heap`, `rss` and `top` are run
# on it.
idle() { tell idle; }

. "$PROGRAMS/lib/port.sh"

# So many times the requests of a quick run.
times=${TIMES:-1}
