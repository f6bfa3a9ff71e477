// realloc of a freed block.
// expect: signal ABRT
// libc: skip glibc says it in other words or not at all
// twin: reallocates before it frees
// promise: 4
// case: realloc_freed_small -DSIZE=64
// stderr: toft: double free: realloc({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// case: realloc_freed_medium -DSIZE=5000
// stderr: toft: double free: realloc({p}): this {size}-byte block is already free (medium slab, slot {n}, partition {n}; call site {addr})
// case: realloc_freed_large -DSIZE=300000
// stderr: toft: double free: realloc({p}): this {size}-byte block is already free (large block, partition {n}; call site {addr})
#include "common.h"

int main(void)
{
    void *p = launder(malloc(SIZE));
    CHECK(p);
    announce_block(p);
    CORRECT(p = realloc(p, SIZE * 2); CHECK(p);)
    free(p);
    MISUSE(p = realloc(launder(p), SIZE * 2);)
    return END;
}
