// build: default blocks of no bytes lie elsewhere
// A block of size 0 freed twice.
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: frees it once
// promise: 4
#include "common.h"

int main(void)
{
    void *p = launder(malloc(launder_size(0)));
    CHECK(p);
    announce_block(p);
    free(p);
    MISUSE(free(launder(p));)
    return END;
}
