# A port that nothing listens on, by TCP or by UDP. It is not of those that the kernel gives to
# clients: a client of this very server could get it, and would ask itself.
port() {
    python3 - <<'P'
import random, socket

with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
    first, last = map(int, file.read().split())
ports = [port for port in range(1024, 1 << 16) if not first <= port <= last]
while True:
    port = random.choice(ports or [0])
    try:
        tcp, udp = (socket.socket(type=kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM))
        tcp.bind(("127.0.0.1", port))
        port = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", port))
    except OSError:
        continue
    print(port)
    break
P
}
