# The package of npm in a new folder, without a network: installed, used, removed, and nothing left.
# tried/node.sh PACKAGE
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export HOME="$PWD/home" TMPDIR="$PWD/tmp"
mkdir "$HOME" "$TMPDIR"
echo '{ "private": true }' > package.json
npm install --silent --offline --no-audit --no-fund "$1"
sh "$here/use.sh" node_modules/.bin/toft
npx --offline toft run -- node -e 'console.log("node runs")'
npm uninstall --silent --offline toft
test -z "$(find node_modules -name '*toft*' 2>/dev/null)"
