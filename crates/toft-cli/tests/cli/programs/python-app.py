"""Allocates at known lines, says so, and waits."""
import sys
import threading

kept = []


class Store:
    def handle(self, count):
        for number in range(count):
            kept.append(
                bytearray(3000 + number)
            )


def words(count):
    for number in range(count):
        yield bytearray(5000 + number)


def in_thread(count):
    kept.extend(bytearray(7000 + number) for number in range(count))


def deep(depth):
    return bytearray(9000) if depth == 0 else deep(depth - 1)


def main():
    Store().handle(100)
    kept.extend(words(100))
    thread = threading.Thread(target=in_thread, args=(100,))
    thread.start()
    thread.join()
    # The code is gone when the profile is read.
    exec(compile("\n\nkept.append(bytearray(90000))", "/gone/løst.py", "exec"))
    kept.append(deep(80))


main()
print("ready", flush=True)
sys.stdin.readline()
