// A read far beyond a sampled block.
// env: TOFT_GUARDED=1
// expect: signal ABRT
// stderr: toft: heap overflow: read({r}): 101 bytes beyond the {size}-byte block at {p} (guarded block, live; call site {addr})
// libc: skip it has no such option
// twin: stays within the block
// promise: 28
#include "common.h"

int main(void)
{
    /* Which end of its slot a block is at is chance. */
    volatile char *p;
    size_t n;
    do {
        p = launder(malloc(112));
        CHECK(p);
        n = malloc_usable_size((void *)p);
        CHECK(n == 112);
    } while (((uintptr_t)p + n) % 4096 != 0);
    announce_block((void *)p);
    announce("q", (void *)(p + n));
    announce("r", (void *)(p + n + 100));
    announce("o", (void *)(p - 1));
    for (size_t i = 0; i < n; i++)
        p[i] = (char)i;
    MISUSE((void)p[n + 100];)
    return END;
}
