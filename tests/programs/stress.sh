# stress-ng: threads, forks, vforks, clones and malloc at the same time, its checks on.
# needs: stress-ng stress-ng
# timeout: 300
seconds=5
[ "${TIMES:-1}" = 1 ] || seconds=60
stress-ng --malloc 2 --fork 2 --vfork 2 --clone 2 --pthread 2 --verify --timeout $seconds >log 2>&1 || { cat log >&2; exit 1; }
grep -oE 'successful run completed|unsuccessful.*' log
