// Thread A allocates, B frees twice. In sequence: named at the second free.
// flags: -pthread
// run: 64
// run: 5000
// run: 300000
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: frees once
// promise: 4 30
#include "common.h"

static void *twice(void *p)
{
    free(launder(p));
    MISUSE(free(launder(p));)
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    void *p = launder(malloc(size));
    CHECK(p);
    announce_block(p);
    join(spawn(twice, p));
    return END;
}
