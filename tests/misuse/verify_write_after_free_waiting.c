// A byte that was written to a block which waits in the quarantine of another thread, and that one
// runs on: toft_verify names it before the block has left.
// flags: -pthread
// expect: signal ABRT
// stderr: toft: write after free: verify({p}): byte 40 of this free 64-byte block was overwritten (small slab, slot {n}, partition {n}; call site {addr})
// libc: skip it has no such function
// twin: writes nothing
// promise: 12
// build: full the light one does not clear what is freed
#include "common.h"

static char *block;
static pthread_barrier_t barrier;

static void *owner(void *arg)
{
    CHECK((block = launder(malloc(64))));
    announce("p", block);
    /* The only one: it stays. */
    free(launder(block));
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return arg;
}

int main(void)
{
    int (*verify)(void) = (int (*)(void))symbol("toft_verify");
    CHECK(verify);
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    pthread_t thread = spawn(owner, NULL);
    pthread_barrier_wait(&barrier);
    CHECK(verify() == 0);
    MISUSE(((volatile char *)launder(block))[40] = 7;)
    CHECK(verify() == 0);
    pthread_barrier_wait(&barrier);
    join(thread);
    return END;
}
