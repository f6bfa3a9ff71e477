// Another thread frees an address inside a live block.
// flags: -pthread
// run: 64
// run: 5000
// run: 300000
// expect: signal ABRT
// stderr: toft: invalid free: free({q}): 16 bytes inside the {size}-byte block at {p} ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}, live; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: frees the block itself
// promise: 4 30
#include "common.h"

HELPER void *freer(void *p)
{
    free(launder(p));
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    char *p = launder(malloc(size));
    CHECK(p);
    announce_block(p);
    announce("q", p + 16);
    join(spawn(freer, p MISUSE(+ 16)));
    return END;
}
