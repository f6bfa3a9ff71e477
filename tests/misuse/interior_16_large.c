// free of an address 16 bytes inside a large block.
// expect: signal ABRT
// stderr: toft: invalid free: free({q}): 16 bytes inside the {size}-byte block at {p} (large block, partition {n}, live; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: steps back first
// promise: 4
#include "common.h"

int main(void)
{
    char *p = launder(malloc(300000));
    CHECK(p);
    announce_block(p);
    announce("q", p + 16);
    MISUSE(free(launder(p + 16));)
    CORRECT(free((char *)launder(p + 16) - 16);)
    return END;
}
