// A handler of SIGABRT that returns does not let the program go on.
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: frees it once
// promise: 28
#include "common.h"

static void handler(int sig)
{
    (void)sig;
}

int main(void)
{
    CHECK(signal(SIGABRT, handler) != SIG_ERR);
    void *p = launder(malloc(64));
    CHECK(p);
    announce_block(p);
    free(p);
    MISUSE(free(launder(p));)
    return END;
}
