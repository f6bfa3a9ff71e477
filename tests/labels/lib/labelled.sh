# What the scripts of this folder share. `$OPTIONS` are those of `toft run`, and the profile goes to
# `$PROFILE`.

# Runs a program that ends: its profile is of its exit, and counts all that was ever allocated.
ends() { "$TOFT" run $OPTIONS --profile "$PROFILE" -- "$@"; }

# A server that refuses to run as root runs as `nobody`.
unprivileged=()
if [ "$(id -u)" = 0 ]; then
    unprivileged=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
fi

# Starts a server in the background: `serve [PREFIX ...] -- PROGRAM ...`.
serve() {
    local prefix=()
    while [ "$1" != -- ]; do
        prefix+=("$1")
        shift
    done
    shift
    "${prefix[@]}" "$TOFT" run $OPTIONS -- "$@" >server.log 2>&1 &
    launcher=$!
    trap 'kill -TERM $launcher 2>/dev/null || true; wait' EXIT
}

# Waits until a command succeeds.
ready() {
    until "$@" >/dev/null 2>&1; do
        kill -0 "$launcher" 2>/dev/null || { cat server.log >&2; return 1; }
        sleep 0.1
    done
}

# Writes the profile of the running server, which is the only child of `toft run`.
profile() { "$TOFT" heap --json -o "$PROFILE" "$(cat /proc/"$launcher"/task/*/children | tr -d ' ')"; }

. "$LABELS/../programs/lib/port.sh"

# Builds a Rust program in `$BUILT`, once for all runs: `built NAME COMMAND ...`.
built() {
    local file=$BUILT/$1
    shift
    [ -e "$file" ] || "$@" >build.log 2>&1 || { cat build.log >&2; return 1; }
}
