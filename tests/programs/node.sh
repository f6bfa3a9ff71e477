# node: the engine's own heap beside malloc, buffers, worker threads, zlib, hashes.
# needs: node nodejs
node "$PROGRAMS/node.js"
