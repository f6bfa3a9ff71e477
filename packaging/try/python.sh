# Installs the wheel in a new environment without a network, uses it, removes it, and checks that
# nothing is left. python.sh WHEEL
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export HOME="$PWD/home" TMPDIR="$PWD/tmp"
mkdir "$HOME" "$TMPDIR"
/usr/bin/python3 -m venv --without-pip environment
pip="/usr/bin/python3 -m pip --disable-pip-version-check --python environment/bin/python"
$pip install --quiet --no-index "$1"
sh "$here/use.sh" environment/bin/toft
sh "$here/use.sh" environment/bin/python -m toft
echo 'import sys, toft
maps = open("/proc/self/maps").read()
assert "libtoft" in maps, maps
print("app.py", toft.__version__, *sys.argv[1:])' > app.py
for run in "run" "run --" "run --python" "run --stats --env A=b.py"; do
    environment/bin/python -m toft $run app.py one two | grep '^app.py .* one two$'
done
environment/bin/python -m toft run -- environment/bin/python app.py three | grep '^app.py .* three$'
$pip uninstall --quiet --yes toft
rm -r "$HOME/.cache/toft"
test -z "$(find . -name '*toft*')"
