# Installs the wheel in an environment of an empty system, without a network, uses it, removes it,
# and compares the files before and after. python.sh WHEEL
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -n 1)
test "$mirror" || mirror=$(awk '$1 == "deb" { print $2; exit }' /etc/apt/sources.list)
cat > inside.sh <<'END'
set -eu
export HOME=/srv/trial PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
cd "$HOME"
files() {
    find / -xdev -not -path '/proc/*' -not -path '/srv/*' | sort
}
bin=/opt/environment/bin
python3 -m venv /opt/environment
files > before
$bin/pip install --quiet --no-index toft-*.whl
sh use.sh $bin/toft
sh use.sh $bin/python -m toft
echo 'import sys, toft
maps = open("/proc/self/maps").read()
assert "libtoft" in maps, maps
print("app.py", toft.__version__, *sys.argv[1:])' > app.py
for run in "run" "run --" "run --python" "run --stats --env A=b.py"; do
    $bin/python -m toft $run app.py one two | grep '^app.py .* one two$'
done
$bin/python -m toft run -- $bin/python app.py three | grep '^app.py .* three$'
$bin/pip uninstall --quiet --yes toft
rm -r "$HOME/.cache/toft"
files > after
diff before after
END
mmdebstrap --mode=root --variant=minbase --skip=cleanup/apt --aptopt='Acquire::Retries "5"' --include=python3-venv \
    --customize-hook='mkdir "$1/srv/trial"' \
    --customize-hook="cp $1 $PWD/inside.sh $here/use.sh \"\$1/srv/trial\"" \
    --customize-hook='chroot "$1" sh /srv/trial/inside.sh' \
    bookworm /dev/null "$mirror"
