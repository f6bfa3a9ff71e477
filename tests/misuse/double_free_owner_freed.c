// A thread allocates, frees and ends; another frees again.
// flags: -pthread
// run: 64
// run: 5000
// run: 300000
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: the thread leaves the freeing to the other
// promise: 4
#include "common.h"

static void *maker(void *size)
{
    void *p = launder(malloc((size_t)size));
    CHECK(p);
    announce_block(p);
    MISUSE(free(p);)
    return p;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    void *p = join(spawn(maker, (void *)size));
    CHECK(p);
    CORRECT(free(p);)
    MISUSE(free(launder(p));)
    return END;
}
