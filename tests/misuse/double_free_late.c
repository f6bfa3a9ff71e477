// A block freed again after a million other operations.
// expect: signal ABRT
// libc: skip glibc says it in other words or not at all
// twin: frees it once
// promise: 4
// case: double_free_late_small -DSIZE=64
// stderr: toft: double free: free({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// case: double_free_late_medium -DSIZE=5000
// stderr: toft: double free: free({p}): this {size}-byte block is already free (medium slab, slot {n}, partition {n}; call site {addr})
// case: double_free_late_large -DSIZE=300000
// stderr: toft: double free: free({p}): this {size}-byte block is already free (large block, partition {n}; call site {addr})
#include "common.h"

int main(void)
{
    void *p = launder(malloc(SIZE));
    CHECK(p);
    announce_block(p);
    free(p);
    /* Of other classes: the same slot must not be in use again when the second free comes. */
    static void *other[1000];
    struct rng r = {9};
    for (int i = 0; i < 1000000; i++) {
        size_t k = rng_below(&r, 1000);
        free(other[k]);
        CHECK((other[k] = malloc(100 + rng_below(&r, 900))));
    }
    MISUSE(free(launder(p));)
    for (int i = 0; i < 1000; i++)
        free(other[i]);
    return END;
}
