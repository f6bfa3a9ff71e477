// malloc_usable_size of an address inside a large block.
// expect: signal ABRT
// stderr: toft: invalid free: malloc_usable_size({q}): 16 bytes inside the {size}-byte block at {p} (large block, partition {n}, live; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: asks for the block itself
// promise: 4
#include "common.h"

int main(void)
{
    char *p = launder(malloc(300000));
    CHECK(p);
    announce_block(p);
    announce("q", p + 16);
    MISUSE(CHECK(malloc_usable_size(launder(p + 16)) < 5);)
    CORRECT(CHECK(malloc_usable_size(launder(p + 16) - 16) >= 300000);)
    free(p);
    return END;
}
