# PostgreSQL: pgbench with kept connections and with a new one each time, a backend that is killed
# in the middle of a query, a sort and a hash in memory.
# needs: runuser util-linux
# probe: postgresql ls /usr/lib/postgresql/*/bin/postgres /usr/lib/postgresql/*/bin/pgbench
# timeout: 900
. "$PROGRAMS/lib/serve.sh"
port=$(port)
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
here=$TMPDIR/pg
mkdir "$here"
[ "$(id -u)" != 0 ] || chown nobody "$here"
client() { "$bin/psql" -h "$here" -p "$port" -U test -d postgres -AtX "$@"; }
bench() { "$bin/pgbench" -h "$here" -p "$port" -U test "$@" postgres; }
on_library "${unprivileged[@]}" "$bin/initdb" -D "$here/data" -U test -A trust --no-sync >init.log 2>&1 || { cat init.log >&2; exit 1; }
serve "${unprivileged[@]}" "$bin/postgres" -D "$here/data" -p "$port" -k "$here" -c listen_addresses= -c fsync=off
ready client -c 'select 1'
bench -i -q -s 1 >init.log 2>&1 || { cat init.log >&2; exit 1; }
both() {
    bench -n -c 4 -j 2 -t $((250 * times))
    bench -n -S -C -c 4 -j 2 -t $((100 * times))
}
load $((1400 * times)) both
grep -E 'processed|failed' load.log
idle
client -c 'select count(*), sum(abalance) - (select sum(delta) from pgbench_history) from pgbench_accounts'
client -c 'set work_mem = $$64MB$$' -c 'select count(*) from (select md5(i::text) as t from generate_series(1, 100000) i order by t) s' \
    -c 'select count(*) from (select i % 5000 as k, string_agg(i::text, $$,$$) from generate_series(1, 100000) i group by k) s'
# The server ends all other backends, recovers, and answers again.
client -c 'select pg_sleep(600)' >killed.log 2>&1 &
sleeper=$!
backend() { client -c "select pid from pg_stat_activity where query like 'select pg_sleep%'"; }
until [ -n "$(backend)" ]; do sleep 0.1; done
kill -KILL "$(backend)"
wait $sleeper && echo "the killed query succeeded"
until client -c 'select 1' >/dev/null 2>&1; do sleep 0.1; done
client -c 'select count(*) from pgbench_accounts'
stop INT
