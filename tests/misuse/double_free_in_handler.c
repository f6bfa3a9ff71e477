// A signal handler frees what the program freed: the report allocates nothing and takes no lock.
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: only the handler frees
// promise: 4 28
#include "common.h"

static void *p;

static void handler(int sig)
{
    (void)sig;
    free(launder(p));
}

int main(void)
{
    p = launder(malloc(64));
    CHECK(p);
    announce_block(p);
    MISUSE(free(p);)
    CHECK(signal(SIGUSR1, handler) != SIG_ERR);
    raise(SIGUSR1);
    return END;
}
