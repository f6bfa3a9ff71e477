// malloc_usable_size of an address inside a block.
// expect: signal ABRT
// libc: skip glibc says it in other words or not at all
// twin: asks for the block itself
// promise: 4
// case: usable_size_interior_small -DSIZE=64
// stderr: toft: invalid free: malloc_usable_size({q}): 16 bytes inside the {size}-byte block at {p} (small slab, slot {n}, partition {n}, live; call site {addr})
// case: usable_size_interior_medium -DSIZE=5000
// stderr: toft: invalid free: malloc_usable_size({q}): 16 bytes inside the {size}-byte block at {p} (medium slab, slot {n}, partition {n}, live; call site {addr})
// case: usable_size_interior_large -DSIZE=300000
// stderr: toft: invalid free: malloc_usable_size({q}): 16 bytes inside the {size}-byte block at {p} (large block, partition {n}, live; call site {addr})
#include "common.h"

int main(void)
{
    char *p = launder(malloc(SIZE));
    CHECK(p);
    announce_block(p);
    announce("q", p + 16);
    MISUSE(CHECK(malloc_usable_size(launder(p + 16)) < 5);)
    CORRECT(CHECK(malloc_usable_size(launder(p + 16) - 16) >= SIZE);)
    free(p);
    return END;
}
