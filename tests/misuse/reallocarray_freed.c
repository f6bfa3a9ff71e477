// reallocarray of a freed block.
// expect: signal ABRT
// stderr: toft: double free: {realloc|reallocarray}({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: frees it once, at the end
// promise: 4
#include "common.h"

int main(void)
{
    void *p = launder(malloc(64));
    CHECK(p);
    announce_block(p);
    MISUSE(free(p);)
    p = reallocarray(launder(p), 64, 2);
    free(p);
    return END;
}
