# A program that runs out of memory hears so, gives memory up, and goes on: under `ulimit -v` and,
# on Toft, under its own limit. A control group's limit is not met by a program that stays below it.
# needs: python3 python3
# timeout: 300
. "$PROGRAMS/lib/serve.sh"
cat >t.py <<'P'
def fill():
    kept = []
    try:
        while True:
            kept.append(bytearray(300_000))
            # No comprehension, which would have a second frame: CPython 3.11 loses a MemoryError on
            # the way out of a frame if the next allocation fails too.
            for _ in range(300):
                kept.append(bytes(900))
    except MemoryError:
        return len(kept)
counts = [fill() for _ in range(5)]
print("refused each time:", all(count > 7500 for count in counts))
print("as much again each time:", min(counts) * 2 > max(counts))
print("goes on:", sum(len(str(n)) for n in range(200000)))
P
export PYTHONMALLOC=malloc
echo "address space"
(ulimit -v 500000; on_library python3 t.py)
echo "the allocator's limit"
if [ -n "$library" ] && [ "${ALLOCATOR#toft}" != "${ALLOCATOR:-}" ]; then
    TOFT_LIMIT=200M on_library python3 t.py
else
    (ulimit -v 500000; on_library python3 t.py)
fi
echo "a control group"
group=
for base in /sys/fs/cgroup/memory /sys/fs/cgroup; do
    if mkdir "$base/toft-test-$$" 2>/dev/null; then
        for limit in memory.limit_in_bytes memory.max; do
            if [ -w "$base/toft-test-$$/$limit" ] && echo 100M >"$base/toft-test-$$/$limit" 2>/dev/null; then
                group=$base/toft-test-$$
                break 2
            fi
        done
        rmdir "$base/toft-test-$$"
    fi
done
cat >below.py <<'P'
total = 0
for n in range(60):
    kept = [bytearray(1000 + n * 37 % 5000) for _ in range(40_000_000 // (3500 + n * 37 % 5000))]
    total += len(kept[0]) * 0 + 1
print("below the limit:", total)
P
if [ -n "$group" ]; then
    (echo $BASHPID >"$group/cgroup.procs"; on_library python3 below.py)
    rmdir "$group"
else
    # Not on standard output, which is compared between runs that may differ in this.
    echo "left out: a control group's limit: no group can be made here" >&2
    on_library python3 below.py
fi
