// free of the slot behind the last block of a size that was handed out.
// expect: signal ABRT
// libc: skip glibc says it in other words or not at all
// build: default where slots are taken at random and are larger than usable, nobody knows a free one
// twin: frees the last block
// promise: 4
// case: never_handed_out_64 -DSIZE=64
// stderr: toft: invalid free: free({q}): never handed out (small slab, {size}-byte slot {n}, partition {n}; call site {addr})
// case: never_handed_out_1000 -DSIZE=1000
// stderr: toft: invalid free: free({q}): never handed out (small slab, {size}-byte slot {n}, partition {n}; call site {addr})
// case: never_handed_out_5000 -DSIZE=5000
// stderr: toft: invalid free: free({q}): never handed out (medium slab, {size}-byte slot {n}, partition {n}; call site {addr})
#include "common.h"

int main(void)
{
    char *last = NULL;
    for (int i = 0; i < 40; i++) {
        char *p = launder(malloc(SIZE));
        CHECK(p);
        if (p > last)
            last = p;
    }
    size_t size = malloc_usable_size(last);
    announce_number("size", size);
    announce("q", last + size);
    MISUSE(free(launder(last + size));)
    CORRECT(free(last);)
    return END;
}
