// A block freed twice in a row.
// expect: signal ABRT
// libc: skip glibc says it in other words or not at all
// twin: frees it once
// promise: 4 28
// case: double_free_small -DSIZE=64
// stderr: toft: double free: free({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// case: double_free_medium -DSIZE=5000
// stderr: toft: double free: free({p}): this {size}-byte block is already free (medium slab, slot {n}, partition {n}; call site {addr})
// case: double_free_large -DSIZE=300000
// stderr: toft: double free: free({p}): this {size}-byte block is already free (large block, partition {n}; call site {addr})
#include "common.h"

int main(void)
{
    void *p = launder(malloc(SIZE));
    CHECK(p);
    announce_block(p);
    free(p);
    MISUSE(free(launder(p));)
    return END;
}
