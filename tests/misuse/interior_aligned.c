// free of an address inside an over-aligned block.
// run: 64 100
// run: 4096 100
// run: 1024 100000
// run: 1048576 70000
// run: 65536 1000000
// expect: signal ABRT
// stderr: toft: invalid free: free({q}): 64 bytes inside the {size}-byte block at {p} ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}, live; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: frees the block itself
// promise: 4
#include "common.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t alignment = strtoul(argv[1], NULL, 10), size = strtoul(argv[2], NULL, 10);
    char *p = launder(aligned_alloc(alignment, size));
    CHECK(p);
    announce_block(p);
    announce("q", p + 64);
    MISUSE(free(launder(p + 64));)
    CORRECT(free(p);)
    return END;
}
