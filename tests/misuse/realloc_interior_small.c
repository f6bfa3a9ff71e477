// realloc of an address inside a small block, to a size of the same class, which needs no move.
// expect: signal ABRT
// stderr: toft: invalid free: realloc({q}): 16 bytes inside the {size}-byte block at {p} (small slab, slot {n}, partition {n}, live; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: reallocates the block itself
// promise: 4
#include "common.h"

int main(void)
{
    char *p = launder(malloc(64));
    CHECK(p);
    announce_block(p);
    announce("q", p + 16);
    MISUSE(p = realloc(launder(p + 16), 64);)
    CORRECT(p = realloc(p, 64);)
    CHECK(p);
    free(p);
    return END;
}
