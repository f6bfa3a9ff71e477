# Installs the RPM in an empty Debian by Debian's rpm, verifies it, uses it, links programs, removes
# it, and compares the files before and after. rpm.sh PACKAGE
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -n 1)
test "$mirror" || mirror=$(awk '$1 == "deb" { print $2; exit }' /etc/apt/sources.list)
# It needs glibc 2.17, libgcc and a shell, and nothing else: the root's rpm knows no package that
# provides them.
rpm --query --package --requires "$1" | sort -u > needs
grep -F 'libc.so.6(GLIBC_2.17)' needs
test -z "$(grep -Ev '^(/bin/sh$|rpmlib\(|rtld\(|ld-linux|lib(c|m|dl|pthread|gcc_s)\.so)' needs)"
cat > inside.sh <<'END'
set -eu
export HOME=/srv/trial
cd "$HOME"
files() {
    find / -xdev -not -path '/proc/*' -not -path '/srv/*' -not -path '/var/lib/rpm/*' -not -path '/var/log/*' | sort
}
# Folders that other packages of Fedora have.
mkdir -p /usr/lib64/cmake /usr/lib64/pkgconfig /usr/share/fish/vendor_completions.d \
    /usr/share/zsh/site-functions
rpm --initdb
files > before
rpm --install --force-debian --nodeps toft-*.rpm
rpm --query --list toft
rpm --verify --nodeps toft
sh use.sh toft
export LD_LIBRARY_PATH=/usr/lib64 PKG_CONFIG_PATH=/usr/lib64/pkgconfig
gcc program.c -o shared $(pkg-config --cflags --libs toft)
gcc program.c -o static -static $(pkg-config --cflags --libs --static toft)
./shared | grep '^toft '
./static | grep '^toft '
# The package provides what the program needs.
needed=$(readelf --dynamic shared | sed -n 's/.*NEEDED.*\[\(libtoft.*\)\]/\1/p')
rpm --query --whatprovides "$needed()(64bit)" | grep '^toft-'
LD_PRELOAD=libtoft.so.0 TOFT_STATS=1 perl -e 1 2>&1 | grep -m1 -o '"toft":[^,]*'
rpm --erase --nodeps toft
files > after
diff before after
END
mmdebstrap --mode=root --variant=minbase --skip=cleanup/apt --aptopt='Acquire::Retries "5"' \
    --include=gcc,libc6-dev,pkg-config,rpm \
    --customize-hook='mkdir "$1/srv/trial"' \
    --customize-hook="cp $1 $PWD/inside.sh $here/use.sh $here/program.c \"\$1/srv/trial\"" \
    --customize-hook='chroot "$1" sh /srv/trial/inside.sh' \
    bookworm /dev/null "$mirror"
