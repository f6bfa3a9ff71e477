// Another thread frees all blocks of a slab, and one of them twice, long before the owner hears of
// it.
// flags: -pthread
// run: 64
// run: 5000
// run: 300000
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: frees each once
// promise: 4
#include "common.h"

enum { N = 100 };
static void *block[N];

static void *others(void *arg)
{
    for (int i = 0; i < N; i++)
        free(launder(block[i]));
    MISUSE(free(launder(block[7]));)
    return arg;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    for (int i = 0; i < N; i++)
        CHECK((block[i] = launder(malloc(size))));
    announce_block(block[7]);
    join(spawn(others, NULL));
    return END;
}
