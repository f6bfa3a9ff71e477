# Installs the npm package in a new folder without a network, uses it, removes it, and checks that
# nothing is left. node.sh PACKAGE
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export HOME="$PWD/home" TMPDIR="$PWD/tmp"
mkdir "$HOME" "$TMPDIR"
echo '{ "private": true }' > package.json
npm install --silent --offline --no-audit --no-fund "$1"
sh "$here/use.sh" node_modules/.bin/toft
npx --offline toft run -- node -e 'console.log("node runs")' | grep '^node runs$'
npm uninstall --silent --offline toft
rm -r "$HOME/.cache/toft"
test -z "$(find node_modules -name '*toft*' 2>/dev/null)"
