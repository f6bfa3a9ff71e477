// free of an address inside a block that was freed.
// run: 64
// run: 5000
// run: 300000
// expect: signal ABRT
// stderr: toft: invalid free: free({q}): 16 bytes inside the {size}-byte block at {p} ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}, {free|live|already free}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: frees it once
// promise: 4
#include "common.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    char *p = launder(malloc(size));
    CHECK(p);
    announce_block(p);
    announce("q", p + 16);
    free(p);
    MISUSE(free(launder(p + 16));)
    return END;
}
