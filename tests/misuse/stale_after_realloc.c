// free of the old address after realloc moved the block.
// run: 64
// run: 5000
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: frees the new address
// promise: 4
#include "common.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    void *p = launder(malloc(size));
    CHECK(p);
    announce_block(p);
    void *old = launder(p);
    p = realloc(p, size * 40);
    /* glibc may have grown it in place. */
    CHECK(p && (p != old || !on_toft()));
    MISUSE(free(old);)
    free(p);
    return END;
}
