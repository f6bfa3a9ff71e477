// A sampled block that is freed again.
// env: TOFT_GUARDED=1
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free (guarded block; call site {addr})
// libc: skip it has no such option
// twin: frees it once
// promise: 4 28
#include "common.h"

int main(void)
{
    void *p = launder(malloc(64));
    CHECK(p);
    announce_block(p);
    free(p);
    for (int i = 0; i < 100; i++)
        free(launder(malloc(64)));
    MISUSE(free(launder(p));)
    return END;
}
