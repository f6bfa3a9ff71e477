// realloc of an address inside a block, to a size of the same class, which needs no move.
// expect: signal ABRT
// libc: skip glibc says it in other words or not at all
// twin: reallocates the block itself
// promise: 4
// case: realloc_interior_small -DSIZE=64
// stderr: toft: invalid free: realloc({q}): 16 bytes inside the {size}-byte block at {p} (small slab, slot {n}, partition {n}, live; call site {addr})
// case: realloc_interior_medium -DSIZE=5000
// stderr: toft: invalid free: realloc({q}): 16 bytes inside the {size}-byte block at {p} (medium slab, slot {n}, partition {n}, live; call site {addr})
// case: realloc_interior_large -DSIZE=300000
// stderr: toft: invalid free: realloc({q}): 16 bytes inside the {size}-byte block at {p} (large block, partition {n}, live; call site {addr})
#include "common.h"

int main(void)
{
    char *p = launder(malloc(SIZE));
    CHECK(p);
    announce_block(p);
    announce("q", p + 16);
    MISUSE(p = realloc(launder(p + 16), SIZE);)
    CORRECT(p = realloc(p, SIZE);)
    CHECK(p);
    free(p);
    return END;
}
