// Tight pairs of malloc and free, which a cache would serve without a check, and then one free
// more.
// expect: signal ABRT
// libc: skip glibc says it in other words or not at all
// twin: stops after the last pair
// promise: 4 30
// case: double_free_fast_path_small -DSIZE=64
// stderr: toft: double free: free({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// case: double_free_fast_path_medium -DSIZE=5000
// stderr: toft: double free: free({p}): this {size}-byte block is already free (medium slab, slot {n}, partition {n}; call site {addr})
// case: double_free_fast_path_large -DSIZE=300000
// stderr: toft: double free: free({p}): this {size}-byte block is already free (large block, partition {n}; call site {addr})
#include "common.h"

int main(void)
{
    void *p = NULL;
    for (int i = 0; i < 100000; i++) {
        p = launder(malloc(SIZE));
        CHECK(p);
        free(p);
    }
    p = launder(malloc(SIZE));
    announce_block(p);
    free(p);
    MISUSE(free(launder(p));)
    return END;
}
