// memset of a block that is free.
// checked: what is tested
// expect: signal ABRT
// stderr: toft: use after free: memset({q}): writes 4 bytes from byte 40 on of the 64-byte block at {p} (small slab, slot {n}, partition {n}, free; call site {addr})
// libc: skip the C library does not look
// twin: stays within the block
// promise: 28
#include "common.h"

int main(void)
{
    static char from[100];
    char *p = launder(malloc(64)), *big = launder(malloc(300000));
    CHECK(p && big);
    size_t large = malloc_usable_size(big);
    announce("p", p);
    announce("q", p + 40);
    announce("big", big);
    announce("r", big + 1);
    announce_number("large", large);
    memcpy(p + 40, from, launder_size(24));
    memcpy(from, p + 40, launder_size(24));
    memmove(big, big + 1, launder_size(large - 1));
    memset(p, 1, launder_size(64));
    bzero(p, launder_size(64));
    MISUSE(free(p); memset(launder(p + 40), 1, 4);)
    return END;
}
