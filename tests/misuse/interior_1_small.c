// free of an address 1 byte inside a small block.
// expect: signal ABRT
// stderr: toft: invalid free: free({q}): 1 bytes inside the {size}-byte block at {p} (small slab, slot {n}, partition {n}, live; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: steps back first
// promise: 4
#include "common.h"

int main(void)
{
    char *p = launder(malloc(64));
    CHECK(p);
    announce_block(p);
    announce("q", p + 1);
    MISUSE(free(launder(p + 1));)
    CORRECT(free((char *)launder(p + 1) - 1);)
    return END;
}
