# The Debian packages in an empty system: installed, used, removed, and nothing left.
# tried/debian.sh FOLDER-OF-PACKAGES
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. /etc/os-release
sources=/etc/apt/sources.list
test -s "$sources" || sources=/etc/apt/sources.list.d/debian.sources
cat > inside.sh <<'END'
set -eu
cd /root
find / -xdev -not -path '/proc/*' -not -path '/root/*' -not -path '/var/lib/dpkg/*' -not -path '/var/log/*' | sort > before
dpkg --install packages/*.deb
ldconfig -p | grep libtoft.so.0
sh use.sh toft
LD_PRELOAD=libtoft.so.0 TOFT_STATS=1 cat /dev/null 2>&1 | grep -q 'toft'
dpkg --purge toft libtoft-dev libtoft0
find / -xdev -not -path '/proc/*' -not -path '/root/*' -not -path '/var/lib/dpkg/*' -not -path '/var/log/*' | sort > after
diff before after
END
mmdebstrap --mode=root --variant=minbase --skip=cleanup/apt \
    --customize-hook='mkdir -p "$1/root/packages"' \
    --customize-hook="cp $1/*.deb \"\$1/root/packages\"" \
    --customize-hook="cp $PWD/inside.sh $here/use.sh \"\$1/root\"" \
    --customize-hook='chroot "$1" sh /root/inside.sh' \
    "$VERSION_CODENAME" /dev/null "$sources"
