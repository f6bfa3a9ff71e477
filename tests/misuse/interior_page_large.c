// free of an address one page inside a large block.
// expect: signal ABRT
// stderr: toft: invalid free: free({q}): {offset} bytes inside the {size}-byte block at {p} (large block, partition {n}, live; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: steps back first
// promise: 4
#include "common.h"

int main(void)
{
    char *p = launder(malloc(300000));
    CHECK(p);
    announce_block(p);
    announce("q", p + page_size());
    announce_number("offset", page_size());
    MISUSE(free(launder(p + page_size()));)
    CORRECT(free((char *)launder(p + page_size()) - page_size());)
    return END;
}
