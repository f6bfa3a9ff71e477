# The default filters of container runtimes: redis under load, and a program with threads that
# executes others, each under one; a whole run has redis under all three.
# needs: gcc gcc
# needs: python3 python3
# needs: redis-server redis-server
# needs: redis-benchmark redis-tools
# needs: redis-cli redis-tools
# probe: libseccomp-dev test -f /usr/include/seccomp.h
# timeout: 600
. "$PROGRAMS/lib/serve.sh"
gcc -o under "$PROGRAMS/../seccomp/under.c" -lseccomp
filter() { echo "$PROGRAMS/../seccomp/$1.calls"; }
cat >t.py <<'P'
import hashlib, subprocess, threading
sums = [0] * 4
def work(n):
    kept = {}
    for i in range(8000):
        kept[i * 7 % 5000] = bytes([i % 256]) * (i * 31 % 700)
    sums[n] = sum(len(value) for value in kept.values())
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sums, hashlib.md5(bytes(1_000_000)).hexdigest())
print(subprocess.run(["sort", "-r"], input="\n".join(map(str, range(20000))), text=True, capture_output=True).stdout[:30])
print([line.strip() for line in open("/proc/self/status") if line.startswith("Seccomp:")])
P
contained_redis() {
    port=$(port)
    serve ./under "$(filter "$1")" -- redis-server --port "$port" --bind 127.0.0.1 --save '' --daemonize no
    ready redis-cli -p "$port" ping
    requests=$((20000 * times))
    load $requests redis-benchmark -p "$port" -q -n $((requests / 4)) -r 20000 -d 300 -c 10 -P 8 -t set,get,lpush,zadd
    redis-cli -p "$port" flushall
    [ "$times" = 1 ] || idle
    redis-cli -p "$port" dbsize
    stop TERM
}
for profile in docker containerd podman; do
    echo "$profile"
    PYTHONMALLOC=malloc on_library ./under "$(filter $profile)" -- python3 t.py
    if [ $profile = docker ] || [ "$times" != 1 ]; then contained_redis $profile; fi
done
