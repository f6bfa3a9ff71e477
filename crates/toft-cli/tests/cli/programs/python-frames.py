"""Allocates in functions of each kind. Writes the stack that the interpreter itself knows for each
allocation into the file $STACKS: a line of the names, innermost first. Says so, and waits."""
import os
import sys
import threading

kept = []
stacks = open(os.environ["STACKS"], "w")


def keep(size=9000):
    kept.append(bytearray(size)); tell(sys._getframe())


def tell(frame):
    calls = []
    while frame:
        code = frame.f_code
        calls.append(f"{code.co_qualname} {os.path.basename(code.co_filename)}:{frame.f_lineno}")
        frame = frame.f_back
    print(*calls, sep=";", file=stacks)


class Store:
    def handle(self):
        keep(
            9100
        )

    @property
    def bytes(self):
        return keep()

    def __lt__(self, other):
        keep()
        return True

    def __enter__(self):
        keep()

    def __exit__(self, *_):
        keep()

    async def __aenter__(self):
        keep()

    async def __aexit__(self, *_):
        keep()


def generator():
    yield keep()
    yield keep()


async def coroutine(store):
    async with store:
        return keep()


def fails():
    try:
        raise ValueError
    except ValueError:
        keep()
    finally:
        keep()


def recurse(depth):
    if depth == 0:
        return keep()
    return recurse(depth - 1)


def main():
    store = Store()
    store.handle()
    store.bytes
    sorted([store, Store()])
    with store:
        pass
    list(generator())
    try:
        coroutine(store).send(None)
    except StopIteration:
        pass
    [keep(size)
     for size in (9200, 9300)]
    (lambda: keep())(
    )
    fails()
    thread = threading.Thread(target=recurse, args=(10,))
    thread.start()
    thread.join()
    exec(compile("\n\n\nkeep()", "/gone/made.py", "exec"))
    for _ in map(keep, [9400]):
        pass

    class Body:
        keep()


main()
stacks.close()
print("ready", flush=True)
sys.stdin.readline()
