// A large block freed twice in a row.
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free (large block, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: frees it once
// promise: 4 28
#include "common.h"

int main(void)
{
    void *p = launder(malloc(300000));
    CHECK(p);
    announce_block(p);
    free(p);
    MISUSE(free(launder(p));)
    return END;
}
