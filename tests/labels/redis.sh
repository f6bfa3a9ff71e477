# redis-server after eight commands of redis-benchmark, with strings, lists and hashes live.
# needs: redis-server redis-server
# needs: redis-benchmark redis-tools
# needs: redis-cli redis-tools
# language: C
# symbols: exported
# own: redis-
. "$LABELS/lib/labelled.sh"
port=$(port)
serve -- redis-server --port "$port" --bind 127.0.0.1 --save ''
ready redis-cli -p "$port" ping
redis-benchmark -p "$port" -q -n 20000 -r 100000 -c 20 -P 8 -t set,get,lpush,sadd,hset,zadd,incr,lrange_100
profile
