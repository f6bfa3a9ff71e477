// TOFT_ON_MISUSE=warn: each page of the pool is named once and given in to, and the program goes
// on.
// env: TOFT_GUARDED=1
// env: TOFT_ON_MISUSE=warn
// stderr: toft: use after free: read({p}): 0 bytes inside the {size}-byte block at {p} (guarded block, free; call site {addr})
// build: default the secure one takes no TOFT_ON_MISUSE=warn
// libc: skip it has no such option
// promise: 28
#include "common.h"

int main(void)
{
    volatile char *p = launder(malloc(64));
    CHECK(p);
    announce_block((void *)p);
    free((void *)p);
    CHECK(p[0] == 0);
    CHECK(p[1] == 0);
    for (int i = 0; i < 3000; i++)
        free(launder(malloc(64)));
    return 0;
}
