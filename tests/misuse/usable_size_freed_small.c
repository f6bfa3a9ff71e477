// malloc_usable_size of a freed small block.
// expect: signal ABRT
// stderr: toft: double free: malloc_usable_size({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: asks while it lives
// promise: 4
#include "common.h"

int main(void)
{
    void *p = launder(malloc(64));
    CHECK(p);
    announce_block(p);
    CORRECT(CHECK(malloc_usable_size(p) >= 64);)
    free(p);
    MISUSE(CHECK(malloc_usable_size(launder(p)) < 5);)
    return END;
}
