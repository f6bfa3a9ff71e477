// In the secure build toft_verify checks what is before every live large block of any thread.
// flags: -pthread
// expect: signal ABRT
// stderr: toft: heap underflow: verify({p}): byte {n} before this 200000-byte block was overwritten (large block, partition {n}; call site {addr})
// libc: skip it has no such function
// twin: writes within it
// promise: 7
// build: secure it writes canaries beside large blocks
#include "common.h"

static char *block;

static void *owner(void *arg)
{
    block = launder(malloc(200000));
    announce("p", block);
    block[0] = 1;
    return arg;
}

int main(void)
{
    int (*verify)(void) = (int (*)(void))symbol("toft_verify");
    CHECK(verify);
    join(spawn(owner, NULL));
    CHECK(verify() == 0);
    volatile char *p = launder(block);
    MISUSE(p[-1] ^= 7;)
    CORRECT(p[0] ^= 7; p[199999] ^= 7;)
    CHECK(verify() == 0);
    free(block);
    return END;
}
