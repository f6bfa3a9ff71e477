// A write to a sampled block that was freed, after many others: its slot waits until all others
// were used.
// env: TOFT_GUARDED=1
// expect: signal ABRT
// stderr: toft: use after free: write({p}): 0 bytes inside the {size}-byte block at {p} (guarded block, free; call site {addr})
// libc: skip it has no such option
// twin: writes before it frees
// promise: 28
#include "common.h"

int main(void)
{
    char *p = launder(malloc(300));
    CHECK(p);
    announce_block(p);
    CORRECT(*(volatile char *)p = 1;)
    free(p);
    for (int i = 0; i < 500; i++)
        free(launder(malloc(300)));
    MISUSE(*(volatile char *)p = 1;)
    return END;
}
