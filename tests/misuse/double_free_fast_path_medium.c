// Tight pairs of malloc and free, which a cache would serve without a check, and then one free
// more.
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free (medium slab, slot {n}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: stops after the last pair
// promise: 4 30
#include "common.h"

int main(void)
{
    void *p = NULL;
    for (int i = 0; i < 100000; i++) {
        p = launder(malloc(5000));
        CHECK(p);
        free(p);
    }
    p = launder(malloc(5000));
    announce_block(p);
    free(p);
    MISUSE(free(launder(p));)
    return END;
}
