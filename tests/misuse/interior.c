// free of an address inside a small, a medium or a large block: 1, 8 or 16 bytes from its start, or
// a page.
// expect: signal ABRT
// libc: skip glibc says it in other words or not at all
// twin: steps back first
// promise: 4
// case: interior_1_small -DSIZE=64 -DOFFSET=1
// stderr: toft: invalid free: free({q}): 1 bytes inside the {size}-byte block at {p} (small slab, slot {n}, partition {n}, live; call site {addr})
// case: interior_1_medium -DSIZE=5000 -DOFFSET=1
// stderr: toft: invalid free: free({q}): 1 bytes inside the {size}-byte block at {p} (medium slab, slot {n}, partition {n}, live; call site {addr})
// case: interior_1_large -DSIZE=300000 -DOFFSET=1
// stderr: toft: invalid free: free({q}): 1 bytes inside the {size}-byte block at {p} (large block, partition {n}, live; call site {addr})
// case: interior_8_small -DSIZE=64 -DOFFSET=8
// stderr: toft: invalid free: free({q}): 8 bytes inside the {size}-byte block at {p} (small slab, slot {n}, partition {n}, live; call site {addr})
// case: interior_8_medium -DSIZE=5000 -DOFFSET=8
// stderr: toft: invalid free: free({q}): 8 bytes inside the {size}-byte block at {p} (medium slab, slot {n}, partition {n}, live; call site {addr})
// case: interior_8_large -DSIZE=300000 -DOFFSET=8
// stderr: toft: invalid free: free({q}): 8 bytes inside the {size}-byte block at {p} (large block, partition {n}, live; call site {addr})
// case: interior_16_small -DSIZE=64 -DOFFSET=16
// stderr: toft: invalid free: free({q}): 16 bytes inside the {size}-byte block at {p} (small slab, slot {n}, partition {n}, live; call site {addr})
// case: interior_16_medium -DSIZE=5000 -DOFFSET=16
// stderr: toft: invalid free: free({q}): 16 bytes inside the {size}-byte block at {p} (medium slab, slot {n}, partition {n}, live; call site {addr})
// case: interior_16_large -DSIZE=300000 -DOFFSET=16
// stderr: toft: invalid free: free({q}): 16 bytes inside the {size}-byte block at {p} (large block, partition {n}, live; call site {addr})
// case: interior_page_medium -DSIZE=5000 -DOFFSET=page_size()
// stderr: toft: invalid free: free({q}): {offset} bytes inside the {size}-byte block at {p} (medium slab, slot {n}, partition {n}, live; call site {addr})
// case: interior_page_large -DSIZE=300000 -DOFFSET=page_size()
// stderr: toft: invalid free: free({q}): {offset} bytes inside the {size}-byte block at {p} (large block, partition {n}, live; call site {addr})
#include "common.h"

int main(void)
{
    char *p = launder(malloc(SIZE));
    CHECK(p);
    announce_block(p);
    announce("q", p + OFFSET);
    announce_number("offset", OFFSET);
    MISUSE(free(launder(p + OFFSET));)
    CORRECT(free((char *)launder(p + OFFSET) - OFFSET);)
    return END;
}
