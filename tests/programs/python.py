"""Many kinds of objects, threads, child processes and C extensions; prints what came out."""

import collections
import ctypes
import hashlib
import json
import re
import sqlite3
import subprocess
import sys
import threading
import zlib


def churn(seed, rounds):
    state, live = seed, collections.OrderedDict()
    for i in range(rounds):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        key = state >> 48
        live[key] = [bytes([key % 256]) * (state % 700), {"k": str(key)}, (i, float(i))]
        if len(live) > 3000:
            live.popitem(last=False)
    return hashlib.sha256(repr(list(live.items())[:200]).encode()).hexdigest()


print(churn(1, 60000))

results = {}
threads = [threading.Thread(target=lambda n=n: results.update({n: churn(n, 8000)})) for n in range(6)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(sorted(results.items()))

document = {"list": [{"n": i, "s": "x" * (i % 50), "f": i / 7} for i in range(5000)]}
text = json.dumps(document)
assert json.loads(text) == document
print(len(text), hashlib.md5(text.encode()).hexdigest())
print(len(re.findall(r"(\d+)\D+?(x*)", text)))
print(len(zlib.decompress(zlib.compress(text.encode(), 9))))

db = sqlite3.connect(":memory:")
db.execute("create table t (a integer, b text)")
db.executemany("insert into t values (?, ?)", ((i * 7919 % 10007, "v%d" % i) for i in range(20000)))
print(db.execute("select sum(a), count(distinct a), max(b) from t where a % 3 = 1").fetchone())

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
for size in (1, 100, 10000, 1000000):
    libc.free(libc.malloc(size))

print(subprocess.run([sys.executable, "-c", "print(sum(range(10**6)))"], capture_output=True).stdout)
big = bytearray(50_000_000)
for i in range(20):
    big += bytes(1_000_000)
print(len(big))
print(len([2**i for i in range(3000)]), sum(int(str(3**i)[-1]) for i in range(1, 2000)))
