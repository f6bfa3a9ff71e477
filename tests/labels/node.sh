# node: buffers, worker threads, zlib, hashes.
# needs: node nodejs
# language: C++, JavaScript
# symbols: all
# own: node
. "$LABELS/lib/labelled.sh"
ends node "$PROGRAMS/node.js"
