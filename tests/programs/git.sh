# git makes, packs and checks a repository; every name of an object is a hash of its content.
# needs: git git
export GIT_AUTHOR_NAME=T GIT_AUTHOR_EMAIL=t@example.com GIT_COMMITTER_NAME=T
export GIT_COMMITTER_EMAIL=t@example.com GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
git init -q -b main r
cd r
for commit in $(seq 12); do
    export GIT_AUTHOR_DATE="2020-01-01T00:00:$((commit + 10))Z"
    export GIT_COMMITTER_DATE="$GIT_AUTHOR_DATE"
    for file in $(seq 60); do
        mkdir -p "d$((file % 7))"
        seq $((commit * file)) $((commit * file + 300)) >"d$((file % 7))/f$file"
    done
    git add -A
    git commit -q -m "commit $commit"
done
git branch side HEAD~4
git checkout -q side
echo more >extra
git add extra
git commit -q -m side
git merge -q -m merge main
git gc -q --aggressive --prune=now
git fsck --full --strict 2>&1
git log --format='%H %s'
git diff --stat HEAD~3 | tail -1
git grep -c 77 | sed -n "1,5p"
git clone -q . ../clone
git -C ../clone rev-parse HEAD
git blame d1/f1 | sha256sum
git repack -q -a -d -f --threads=2
git count-objects -v | grep -E '^(count|in-pack|packs)'
