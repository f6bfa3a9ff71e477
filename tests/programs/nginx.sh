# nginx with two workers: files of several sizes, compression, connections that are kept and closed.
# needs: nginx nginx-light
# needs: ab apache2-utils
# needs: curl curl
# timeout: 600
. "$PROGRAMS/lib/serve.sh"
port=$(port)
mkdir -p site logs
for size in 100 5000 200000; do
    head -c $size /dev/zero | tr '\0' 'a' >site/$size.html
done
cat >nginx.conf <<C
daemon off;
worker_processes 2;
pid $PWD/nginx.pid;
error_log $PWD/server.log error;
events { worker_connections 512; }
http {
    access_log off;
    gzip on;
    gzip_types text/html;
    client_body_temp_path $PWD/logs/body;
    proxy_temp_path $PWD/logs/proxy;
    fastcgi_temp_path $PWD/logs/fastcgi;
    uwsgi_temp_path $PWD/logs/uwsgi;
    scgi_temp_path $PWD/logs/scgi;
    server {
        listen 127.0.0.1:$port;
        root $PWD/site;
        default_type text/html;
        location /back/ { proxy_pass http://127.0.0.1:$port/; }
    }
}
C
chmod -R a+rwX .
serve nginx -e "$PWD/server.log" -p "$PWD" -c "$PWD/nginx.conf"
ready curl -sf "http://127.0.0.1:$port/100.html"
fetch() { ab -q -k -n $1 -c 16 -H 'Accept-Encoding: gzip' "http://127.0.0.1:$port/$2"; }
all() {
    local each=$((3000 * times))
    fetch $each 100.html
    fetch $each 5000.html
    fetch $((each / 3)) back/200000.html
}
load $((7000 * times)) all
grep -E '^(Complete|Failed) requests|^Non-2xx' load.log
curl -sf --compressed "http://127.0.0.1:$port/back/200000.html" | md5sum
kill -HUP $server
ready curl -sf "http://127.0.0.1:$port/100.html"
idle
stop QUIT
