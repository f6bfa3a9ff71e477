# git log of 40 commits with their statistics.
# needs: git git
# language: C
# symbols: none
# below: it has no symbols, and two fifths of all bytes are those of zlib
# own: git
. "$LABELS/lib/labelled.sh"
export GIT_AUTHOR_NAME=T GIT_AUTHOR_EMAIL=t@example.com GIT_COMMITTER_NAME=T
export GIT_COMMITTER_EMAIL=t@example.com GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
git init -q -b main r
cd r
for commit in $(seq 40); do
    for file in $(seq 40); do
        seq $((commit * file)) $((commit * file + 300)) >"f$file"
    done
    git add -A
    git commit -q -m "commit $commit"
done
git gc -q
ends git log --stat
