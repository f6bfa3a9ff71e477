// A pointer into a block, freed for good, is named as free would name it, and the block stays.
// expect: signal ABRT
// stderr: toft: invalid free: toft_free_permanently({q}): 16 bytes inside the {size}-byte block at {p} (small slab, slot {n}, partition {n}, live; call site {addr})
// libc: skip it has no such function
// twin: passes its start
// promise: 4
#include "common.h"

int main(void)
{
    void (*free_permanently)(void *) = (void (*)(void *))symbol("toft_free_permanently");
    CHECK(free_permanently);
    char *p = launder(malloc(64));
    announce_block(p);
    announce("q", p + 16);
    MISUSE(free_permanently(launder(p + 16));)
    CORRECT(free_permanently(launder(p));)
    return END;
}
