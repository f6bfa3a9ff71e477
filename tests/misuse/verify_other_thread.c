// A stray write into the tables of a slab that belongs to a thread which runs on: toft_verify,
// called by another, names it.
// flags: -pthread
// expect: signal ABRT
// stderr: toft: damaged metadata: verify({slab}): not so: I3: remote but not live (small slab of {n}-byte slots, partition {n}; call site {addr})
// libc: skip it has no such function
// twin: writes nothing
// promise: 28
#include "damage.h"

static void *block;
static pthread_barrier_t barrier;

static void *owner(void *arg)
{
    block = block_in_long_slab();
    for (int i = 0; i < 10000; i++)
        free(launder(malloc((size_t)i % 3000)));
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    free(block);
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
    struct damage d = find_slab(block);
    announce("slab", d.slab);
    MISUSE(damage(&d);)
    CHECK(verify() == 0);
    pthread_barrier_wait(&barrier);
    join(thread);
    CHECK(verify() == 0);
    return END;
}
