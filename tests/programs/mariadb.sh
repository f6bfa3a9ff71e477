# MariaDB under mariadb-slap, with several connections, sorts and temporary tables.
# needs: mariadbd mariadb-server
# needs: mariadb-slap mariadb-client
# needs: mariadb-install-db mariadb-server
# timeout: 900
. "$PROGRAMS/lib/serve.sh"
here=$TMPDIR/my
mkdir "$here"
export TMPDIR=$here
[ "$(id -u)" != 0 ] || chown nobody "$here"
common=(--no-defaults --datadir="$here/data" --socket="$here/s" --skip-networking --innodb-buffer-pool-size=32M)
"${unprivileged[@]}" mariadb-install-db --no-defaults --datadir="$here/data" --auth-root-authentication-method=normal --skip-test-db >init.log 2>&1 || { cat init.log >&2; exit 1; }
serve "${unprivileged[@]}" mariadbd "${common[@]}" --pid-file="$here/pid"
client() { mariadb --no-defaults --socket="$here/s" -u root -N -B "$@"; }
ready client -e 'select 1'
queries=$((1000 * times))
slap() {
    mariadb-slap --no-defaults --socket="$here/s" -u root --concurrency=8 --number-of-queries=$queries \
        --auto-generate-sql --auto-generate-sql-load-type=mixed --auto-generate-sql-add-autoincrement \
        --number-char-cols=4 --number-int-cols=3 --auto-generate-sql-secondary-indexes=1
}
load $queries slap
idle
client -e 'create database d; use d; create table d.t (a int primary key, b varchar(200));
    insert into d.t select seq, md5(seq) from seq_1_to_20000;
    select count(*), sum(length(b)) from d.t; select b, count(*) from (select left(b, 1) b from d.t) x group by b order by b limit 3;
    select max(b) from (select b from d.t order by reverse(b)) x'
client -e 'shutdown'
wait "$server" || { echo "mariadbd ended with $?"; tail -n 20 server.log >&2; }
stop TERM
