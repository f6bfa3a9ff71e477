// The thread that allocated a block has ended; the block is freed twice.
// flags: -pthread
// run: 64
// run: 5000
// run: 300000
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// promise: 4
// case: double_free_owner_freed
// That thread has freed it, another frees again.
// twin: the thread leaves the freeing to the other
// case: double_free_owner_gone
// Another frees its block twice.
// twin: frees once
// case: double_free_adopted
// A later thread, which takes over what it left, works in the same classes meanwhile.
// twin: frees once
#include "common.h"

static void *maker(void *size)
{
    void *p = launder(malloc((size_t)size));
    CHECK(p);
    announce_block(p);
    return p;
}

HELPER void *maker_that_frees(void *size)
{
    void *p = maker(size);
    MISUSE(free(p);)
    return p;
}

HELPER void *worker(void *size)
{
    /* Of other classes, lest the slot be in use again. */
    for (size_t i = 0; i < 1000; i++)
        free(malloc((size_t)size * 3 + i));
    return NULL;
}

HELPER void double_free_owner_freed(void *size)
{
    void *p = join(spawn(maker_that_frees, size));
    CORRECT(free(p);)
    MISUSE(free(launder(p));)
}

HELPER void double_free_owner_gone(void *size)
{
    void *p = join(spawn(maker, size));
    free(p);
    MISUSE(free(launder(p));)
}

HELPER void double_free_adopted(void *size)
{
    void *p = join(spawn(maker, size));
    free(launder(p));
    join(spawn(worker, size));
    MISUSE(free(launder(p));)
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    CASE((void *)strtoul(argv[1], NULL, 10));
    return END;
}
