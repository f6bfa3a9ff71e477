# Installs the Debian packages in an empty system, uses and purges them, and compares the files
# before and after. debian.sh FOLDER-OF-PACKAGES SUITE
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -n 1)
test "$mirror" || mirror=$(awk '$1 == "deb" { print $2; exit }' /etc/apt/sources.list)
cat > inside.sh <<'END'
set -eu
cd /root
files() {
    find / -xdev -not -path '/proc/*' -not -path '/root/*' -not -path '/var/lib/dpkg/*' -not -path '/var/log/*' | sort
}
files > before
dpkg --install packages/*.deb
ldconfig -p | grep libtoft.so.0
sh use.sh toft
# A program that leaves standard error open to the end.
LD_PRELOAD=libtoft.so.0 TOFT_STATS=1 perl -e 1 2>&1 | grep -m1 toft
dpkg --purge toft libtoft-dev libtoft0
rm -rf /root/.cache
files > after
diff before after
END
mmdebstrap --mode=root --variant=minbase --skip=cleanup/apt --aptopt='Acquire::Retries "5"' \
    --customize-hook='mkdir -p "$1/root/packages"' \
    --customize-hook="cp $1/*.deb \"\$1/root/packages\"" \
    --customize-hook="cp $PWD/inside.sh $here/use.sh \"\$1/root\"" \
    --customize-hook='chroot "$1" sh /root/inside.sh' \
    "$2" /dev/null "$mirror"
