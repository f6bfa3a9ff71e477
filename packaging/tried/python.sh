# The wheel in a new environment, without a network: installed, used, removed, and nothing left.
# tried/python.sh WHEEL
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export HOME="$PWD/home" TMPDIR="$PWD/tmp"
mkdir "$HOME" "$TMPDIR"
python3 -m venv --without-pip environment
python3 -m pip --python environment/bin/python install --quiet --no-index --disable-pip-version-check "$1"
sh "$here/use.sh" environment/bin/toft
sh "$here/use.sh" environment/bin/python -m toft
environment/bin/toft run -- environment/bin/python -c 'import toft; print(toft.__version__)'
python3 -m pip --python environment/bin/python uninstall --quiet --yes toft
test -z "$(find environment -name '*toft*')"
