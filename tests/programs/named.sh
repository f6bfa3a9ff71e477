# BIND with a zone, queries, and a reload of a larger zone. Debian's named takes its memory by
# jemalloc's mallocx: docs/jemalloc.md.
# needs: named bind9
# needs: dig bind9-dnsutils
# timeout: 300
. "$PROGRAMS/lib/serve.sh"
port=$(port)
ask() { dig @127.0.0.1 -p "$port" +short +tries=3 "$@"; }
# zone SERIAL NAMES
zone() {
    printf '$TTL 60\n@ IN SOA ns.example. admin.example. %d 60 60 60 60\n@ IN NS ns.example.\nns IN A 127.0.0.1\n' "$1"
    seq "$2" | sed 's/.*/host& IN A 10.0.0.1\nhost& IN TXT "text of host &"/'
}
each=$((20000 * times))
zone 1 "$each" >zone.db
cat >named.conf <<END
options {
    directory "$PWD";
    pid-file none;
    session-keyfile none;
    listen-on port $port { 127.0.0.1; };
    listen-on-v6 { none; };
    recursion no;
    dnssec-validation no;
};
controls { };
zone "example" { type primary; file "zone.db"; };
END
serve named -g -n 2 -c "$PWD/named.conf"
answers() { ask example SOA | grep -q " $1 "; }
ready answers 1
ask host1.example A
ask "host$each.example" TXT
seq $((2000 * times)) | sed 's/.*/host&.example A/' >queries
load $((2000 * times)) dig @127.0.0.1 -p "$port" +short +tries=3 -f queries
sort load.log | uniq -c | sed 's/^ *//'
idle
zone 2 $((2 * each)) >zone.db
kill -HUP "$server"
ready answers 2
ask "host$((2 * each)).example" TXT
ask nothing.example A
idle
stop TERM
grep -c 'exiting' server.log
