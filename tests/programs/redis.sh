# redis-server under redis-benchmark, with threads, lazy frees and a flush; what is in it afterwards
# is the same.
# needs: redis-server redis-server
# needs: redis-benchmark redis-tools
# needs: redis-cli redis-tools
# timeout: 600
. "$PROGRAMS/lib/serve.sh"
port=$(port)
cli() { redis-cli -p "$port" "$@"; }
serve redis-server --port "$port" --bind 127.0.0.1 --save '' --io-threads 2 --daemonize no
ready cli ping
each=$((20000 * times))
load $((8 * each)) redis-benchmark -p "$port" -q -n "$each" -r 100000 -c 20 -P 8 -t set,get,lpush,lpop,sadd,hset,zadd,incr
cli flushall
idle
cli eval 'for i = 1, 20000 do redis.call("set", "k" .. i, string.rep("v", i % 500)) end return "set"' 0
cli eval 'local n = 0 for i = 1, 20000 do n = n + redis.call("strlen", "k" .. i) end return n' 0
cli eval 'for i = 1, 3000 do redis.call("rpush", "list", i) redis.call("hset", "hash", i, i * 2) redis.call("zadd", "z", i % 77, i) end return redis.call("llen", "list")' 0
cli zrangebyscore z 70 76 LIMIT 0 3
cli unlink list
cli eval 'for i = 1, 20000, 2 do redis.call("del", "k" .. i) end return redis.call("dbsize")' 0
cli append k2 more
cli getrange k2 0 -1
cli debug reload nosave >/dev/null 2>&1 || true
cli dbsize
cli shutdown nosave >/dev/null 2>&1 || true
stop TERM
grep -c 'ready to accept' -i server.log
