// The thread that allocated has ended and a later thread, which takes over what it left, works in
// the same classes; the block that it freed meanwhile is freed again.
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

static void *maker(void *size)
{
    return launder(malloc((size_t)size));
}

static void *worker(void *size)
{
    /* Of other classes, lest the slot be in use again. */
    for (size_t i = 0; i < 1000; i++)
        free(malloc((size_t)size * 3 + i));
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    char *p = join(spawn(maker, (void *)size));
    CHECK(p);
    announce_block(p);
    void *q = launder(p);
    free(q);
    join(spawn(worker, (void *)size));
    MISUSE(free(launder(p));)
    return END;
}
