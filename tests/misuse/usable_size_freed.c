// malloc_usable_size of a freed block.
// expect: signal ABRT
// libc: skip glibc says it in other words or not at all
// twin: asks while it lives
// promise: 4
// case: usable_size_freed_small -DSIZE=64
// stderr: toft: double free: malloc_usable_size({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// case: usable_size_freed_medium -DSIZE=5000
// stderr: toft: double free: malloc_usable_size({p}): this {size}-byte block is already free (medium slab, slot {n}, partition {n}; call site {addr})
// case: usable_size_freed_large -DSIZE=300000
// stderr: toft: double free: malloc_usable_size({p}): this {size}-byte block is already free (large block, partition {n}; call site {addr})
#include "common.h"

int main(void)
{
    void *p = launder(malloc(SIZE));
    CHECK(p);
    announce_block(p);
    CORRECT(CHECK(malloc_usable_size(p) >= SIZE);)
    free(p);
    MISUSE(CHECK(malloc_usable_size(launder(p)) < 5);)
    return END;
}
