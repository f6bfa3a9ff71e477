// A program that does not want to end by SIGABRT ends by it all the same.
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: frees it once
// promise: 28
// case: abort_blocked
// case: abort_ignored
// case: abort_handler_returns
// case: abort_handler_jumps
#include "common.h"
#include <setjmp.h>

static sigjmp_buf back;

HELPER void returns(int sig)
{
    (void)sig;
}

HELPER void jumps(int sig)
{
    siglongjmp(back, sig);
}

HELPER void abort_blocked(void)
{
    sigset_t all;
    sigfillset(&all);
    CHECK(sigprocmask(SIG_BLOCK, &all, NULL) == 0);
}

HELPER void abort_ignored(void)
{
    CHECK(signal(SIGABRT, SIG_IGN) != SIG_ERR);
}

HELPER void abort_handler_returns(void)
{
    CHECK(signal(SIGABRT, returns) != SIG_ERR);
}

HELPER void abort_handler_jumps(void)
{
    CHECK(signal(SIGABRT, jumps) != SIG_ERR);
}

int main(void)
{
    CASE();
    if (sigsetjmp(back, 1))
        return 78;
    void *p = launder(malloc(64));
    CHECK(p);
    announce_block(p);
    free(p);
    MISUSE(free(launder(p));)
    return END;
}
