// A block freed twice by its owner in a slab whose other blocks another thread freed.
// flags: -pthread
// run: 64
// run: 5000
// run: 300000
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: frees once
// promise: 4
#include "common.h"

enum { N = 101 };
static void *block[N];

static void *others(void *arg)
{
    for (int i = 0; i < N; i++)
        if (i != N / 2)
            free(block[i]);
    return arg;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    for (int i = 0; i < N; i++)
        CHECK((block[i] = launder(malloc(size))));
    void *p = block[N / 2];
    announce_block(p);
    join(spawn(others, NULL));
    free(p);
    MISUSE(free(launder(p));)
    return END;
}
