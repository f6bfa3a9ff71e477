# memcached with four threads, filled beyond its limit; stored values come back whole.
# needs: memcached memcached
# needs: python3 python3
# timeout: 600
. "$PROGRAMS/lib/serve.sh"
port=$(port)
serve memcached -u nobody -l 127.0.0.1 -p "$port" -m 64 -t 4 -I 2m
ready python3 -c "import socket; socket.create_connection(('127.0.0.1', $port))"
cat >client.py <<'P'
import random, socket, sys, threading
port, count = int(sys.argv[1]), int(sys.argv[2])
wrong = []
def value(key):
    return (b"%d." % key) * (1 + key * 7919 % 400)
def client(seed):
    rng = random.Random(seed)
    connection = socket.create_connection(("127.0.0.1", port))
    lines = connection.makefile("rb")
    for _ in range(count // 4):
        key = rng.randrange(50000)
        if rng.random() < 0.5:
            data = value(key)
            connection.sendall(b"set k%d 0 0 %d\r\n%s\r\n" % (key, len(data), data))
            answer = lines.readline()
            if answer != b"STORED\r\n":
                wrong.append(answer)
        else:
            connection.sendall(b"get k%d\r\n" % key)
            header = lines.readline()
            if header != b"END\r\n":
                data = lines.read(int(header.split()[3]) + 2)[:-2]
                if lines.readline() != b"END\r\n" or data != value(key):
                    wrong.append(key)
threads = [threading.Thread(target=client, args=(n,)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("wrong answers:", len(wrong), wrong[:3])
sys.exit(bool(wrong))
P
requests=$((40000 * times))
load $requests python3 client.py "$port" $requests
cat load.log
idle
stop TERM
