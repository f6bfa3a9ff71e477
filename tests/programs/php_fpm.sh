# php-fpm, which opens its extensions with RTLD_DEEPBIND, behind Apache and under load on loopback.
# needs: php php-cli
# needs: ab apache2-utils
# probe: apache2 test -x /usr/sbin/apache2
# probe: php-fpm ls /usr/sbin/php-fpm*
# timeout: 600
. "$PROGRAMS/lib/serve.sh"
port=$(port)
cp "$PROGRAMS/php_page.php" "$TMPDIR/page.php"
chmod 644 "$TMPDIR/page.php"
cat > fpm.conf <<CONF
[global]
error_log = $PWD/fpm-errors
daemonize = no
[www]
listen = $TMPDIR/fpm.sock
listen.mode = 0666
user = www-data
group = www-data
pm = dynamic
pm.max_children = 4
pm.start_servers = 2
pm.min_spare_servers = 1
pm.max_spare_servers = 2
pm.max_requests = 60
catch_workers_output = yes
CONF
modules=/usr/lib/apache2/modules
cat > apache.conf <<CONF
ServerRoot $PWD
ServerName localhost
PidFile $TMPDIR/apache.pid
Mutex posixsem
ErrorLog $PWD/errors
Listen 127.0.0.1:$port
User www-data
Group www-data
LoadModule mpm_event_module $modules/mod_mpm_event.so
LoadModule authz_core_module $modules/mod_authz_core.so
LoadModule proxy_module $modules/mod_proxy.so
LoadModule proxy_fcgi_module $modules/mod_proxy_fcgi.so
DocumentRoot $TMPDIR
<Files "*.php">
    SetHandler "proxy:unix:$TMPDIR/fpm.sock|fcgi://localhost"
</Files>
CONF
# Apache in front is a client like the others; php-fpm is measured.
setsid /usr/sbin/apache2 -f "$PWD/apache.conf" -DFOREGROUND 2>said &
front=$!
serve "$(ls /usr/sbin/php-fpm* | head -n 1)" -y "$PWD/fpm.conf" -F
trap 'kill $front; stop KILL' EXIT
get() { php -r 'echo @file_get_contents($argv[1]);' "http://127.0.0.1:$port/page.php?n=$1"; }
answers() { [ -n "$(get 0)" ]; }
ready answers
get 1
requests=$((400 * times))
load $requests ab -q -n $requests -c 8 "http://127.0.0.1:$port/page.php?n=7"
grep -E '^(Complete|Failed|Non-2xx)' load.log
idle
get 2
stop TERM
kill -TERM $front
wait $front || true
grep '^toft:' errors fpm-errors >&2 || true
grep -c 'exited on signal' fpm-errors || true
