// In the secure build what is free is zero: a byte that was written since is named by
// toft_verify, while its thread runs on and before anybody gets the block.
// flags: -pthread
// expect: signal ABRT
// stderr: toft: write after free: verify({p}): byte 40 of this free 64-byte block was overwritten (small slab, slot {n}, partition {n}; call site {addr})
// libc: skip it has no such function
// twin: writes nothing
// promise: 12
// build: full the light one does not clear what is freed
// case: verify_write_after_free_secure -DMANY=20000
// With that many blocks freed, the first has left the quarantine.
// case: verify_write_after_free_waiting -DMANY=1
// The only one: it stays in the quarantine.
#include "common.h"

static char *block[MANY];
static pthread_barrier_t barrier;

static void *owner(void *arg)
{
    for (int i = 0; i < MANY; i++)
        CHECK((block[i] = launder(malloc(64))));
    announce("p", block[0]);
    for (int i = 0; i < MANY; i++)
        free(launder(block[i]));
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
    MISUSE(((volatile char *)launder(block[0]))[40] = 7;)
    CHECK(verify() == 0);
    pthread_barrier_wait(&barrier);
    join(thread);
    return END;
}
