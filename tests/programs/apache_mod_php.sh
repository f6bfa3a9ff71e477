# Apache with mod_php, which opens its extensions with RTLD_DEEPBIND, under load on loopback.
# needs: php php-cli
# needs: ab apache2-utils
# probe: apache2 test -x /usr/sbin/apache2
# probe: libapache2-mod-php ls /usr/lib/apache2/modules/libphp*.so
# timeout: 600
. "$PROGRAMS/lib/serve.sh"
port=$(port)
cp "$PROGRAMS/php_page.php" "$TMPDIR/page.php"
chmod 644 "$TMPDIR/page.php"
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
LoadModule mpm_prefork_module $modules/mod_mpm_prefork.so
LoadModule authz_core_module $modules/mod_authz_core.so
LoadModule php_module $(ls $modules/libphp*.so | head -n 1)
DocumentRoot $TMPDIR
StartServers 2
MaxRequestWorkers 8
MaxConnectionsPerChild 60
<Files "*.php">
    SetHandler application/x-httpd-php
</Files>
CONF
serve /usr/sbin/apache2 -f "$PWD/apache.conf" -DFOREGROUND
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
grep '^toft:' errors >&2 || true
# A worker that died is in the log.
grep -c 'exit signal' errors || true
