// free of an address on another thread's stack.
// flags: -pthread
// expect: signal ABRT
// stderr: toft: invalid free: free({q}): not a block of this allocator
// libc: skip glibc says it in other words or not at all
// twin: frees nothing
// promise: 4
#include "common.h"

static void *on_stack(void *arg)
{
    free(arg);
    return NULL;
}

static void *thread(void *arg)
{
    char local[64];
    announce("q", launder(local));
    MISUSE(arg = launder(local);)
    join(spawn(on_stack, arg));
    return NULL;
}

int main(void)
{
    join(spawn(thread, NULL));
    return END;
}
