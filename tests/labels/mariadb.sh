# mariadbd after mariadb-slap and 20 000 rows.
# needs: mariadbd mariadb-server
# needs: mariadb-slap mariadb-client
# needs: mariadb-install-db mariadb-server
# language: C++
# symbols: exported
# below: static and hidden functions have no symbol; one of them has half of the live bytes
# own: mariadbd
# timeout: 300
. "$LABELS/lib/labelled.sh"
here=$TMPDIR/my
mkdir "$here"
[ "$(id -u)" != 0 ] || chown nobody "$here"
export TMPDIR=$here HOME=$here
"${unprivileged[@]}" mariadb-install-db --no-defaults --datadir="$here/data" --auth-root-authentication-method=normal --skip-test-db >init.log 2>&1 || { cat init.log >&2; exit 1; }
serve "${unprivileged[@]}" -- mariadbd --no-defaults --datadir="$here/data" --socket="$here/s" --skip-networking --innodb-buffer-pool-size=32M
client() { mariadb --no-defaults --socket="$here/s" -u root -N -B "$@"; }
ready client -e 'select 1'
mariadb-slap --no-defaults --socket="$here/s" -u root --concurrency=8 --number-of-queries=1000 \
    --auto-generate-sql --auto-generate-sql-load-type=mixed --auto-generate-sql-add-autoincrement
client -e 'create database d; use d; create table d.t (a int primary key, b varchar(200));
    insert into d.t select seq, md5(seq) from seq_1_to_20000;
    select max(b) from (select b from d.t order by reverse(b)) x'
profile
