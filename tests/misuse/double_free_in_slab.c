// One of many blocks is freed twice, and another thread frees the others.
// flags: -pthread
// run: 64
// run: 5000
// run: 300000
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: frees each once
// promise: 4
// case: double_free_remote_pending
// The other thread frees all of them, and one twice, long before the owner hears of it.
// case: double_free_slab_remote
// The owner frees its block twice.
#include "common.h"

enum { N = 101, TWICE = N / 2 };
static void *block[N];

static void *free_others(void *arg)
{
    for (int i = 0; i < N; i++)
        if (i != TWICE)
            free(launder(block[i]));
    return arg;
}

HELPER void *free_all(void *arg)
{
    free(launder(block[TWICE]));
    free_others(arg);
    MISUSE(free(launder(block[TWICE]));)
    return arg;
}

HELPER void double_free_remote_pending(void)
{
    join(spawn(free_all, NULL));
}

HELPER void double_free_slab_remote(void)
{
    join(spawn(free_others, NULL));
    free(block[TWICE]);
    MISUSE(free(launder(block[TWICE]));)
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    for (int i = 0; i < N; i++)
        CHECK((block[i] = launder(malloc(size))));
    announce_block(block[TWICE]);
    CASE();
    return END;
}
