// malloc_usable_size of an address inside a medium block.
// expect: signal ABRT
// stderr: toft: invalid free: malloc_usable_size({q}): 16 bytes inside the {size}-byte block at {p} (medium slab, slot {n}, partition {n}, live; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: asks for the block itself
// promise: 4
#include "common.h"

int main(void)
{
    char *p = launder(malloc(5000));
    CHECK(p);
    announce_block(p);
    announce("q", p + 16);
    MISUSE(CHECK(malloc_usable_size(launder(p + 16)) < 5);)
    CORRECT(CHECK(malloc_usable_size(launder(p + 16) - 16) >= 5000);)
    free(p);
    return END;
}
