// free_sized of an address inside a block.
// run: 64
// run: 5000
// run: 300000
// expect: signal ABRT
// stderr: toft: invalid free: free_sized({q}): 8 bytes inside the {size}-byte block at {p} ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}, live; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: frees the block itself
// promise: 4
#include "common.h"

int main(int argc, char **argv)
{
    free_sized_fn free_sized = (free_sized_fn)symbol("free_sized");
    CORRECT(if (!free_sized) return 0;)
    CHECK(free_sized);

    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    char *p = launder(malloc(size));
    CHECK(p);
    announce_block(p);
    announce("q", p + 8);
    free_sized(launder(p) MISUSE(+ 8), size);
    return END;
}
