create table item (id integer primary key, name text, price real);
create table sale (item integer, day integer, n integer);
begin;
with recursive c(x) as (values (1) union all select x + 1 from c where x < 50000)
insert into item select x, 'item ' || (x * 7919 % 50021), x * 1.25 from c;
with recursive c(x) as (values (1) union all select x + 1 from c where x < 100000)
insert into sale select x * 31 % 50000 + 1, x % 365, x % 9 from c;
commit;
create index by_day on sale (day, item);
create index by_name on item (name);
select day, sum(n * price) from sale join item on item.id = sale.item where day < 5 group by day;
select count(*), min(name), max(name) from item where name like 'item 12%';
