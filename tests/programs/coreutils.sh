# What every script uses: sort in parallel, tar, gzip, awk, sed, find, diff.
# needs: sort coreutils
# needs: tar tar
# needs: gzip gzip
awk 'BEGIN { s = 1; for (i = 0; i < 300000; i++) { s = (s * 16807) % 2147483647; print s, i } }' >numbers
sort -n --parallel=4 -S 2M numbers | sha256sum
sort -k2,2r -u numbers | sed -n "1,2p"
mkdir tree
split -l 5000 numbers tree/part-
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf tree.tar tree
gzip -9n tree.tar
sha256sum tree.tar.gz
mkdir out
tar -xzf tree.tar.gz -C out
diff -r tree out/tree && echo same
find out -name 'part-*' | sort | xargs -n 5 wc -l | tail -1
sed -E 's/([0-9])([0-9]+)/\2\1/' numbers | md5sum
uniq -w 3 numbers | wc -l
