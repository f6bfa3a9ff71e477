# sqlite3: tables, indexes, joins, full scans, a vacuum, an integrity check.
# needs: sqlite3 sqlite3
{
    echo 'pragma journal_mode = memory;'
    cat "$PROGRAMS/sales.sql" - <<'S'
delete from sale where n = 4;
update item set price = price * 2 where id % 3 = 0;
vacuum;
select group_concat(name, '/') from (select name from item order by price desc limit 20);
select count(*), total(price) from item;
pragma integrity_check;
S
} >s.sql
sqlite3 test.db <s.sql
sqlite3 test.db .dump | sha256sum
