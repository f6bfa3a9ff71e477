// A block that was permanently freed is passed again to free, realloc, toft_free_permanently and
// malloc_usable_size.
// run: 64 0
// run: 64 1
// run: 64 2
// run: 64 3
// run: 5000 0
// run: 300000 0
// run: 300000 2
// expect: signal ABRT
// stderr: toft: double free: {re:[a-z_]+}({p}): this {size}-byte block is already free{re:(, for good)?} ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// libc: skip it has no such function
// twin: frees it once
// promise: 4
#include "common.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t size = strtoul(argv[1], NULL, 10);
    int how = atoi(argv[2]);
    void (*free_permanently)(void *) = (void (*)(void *))symbol("toft_free_permanently");
    CHECK(free_permanently);
    char *p = launder(malloc(size));
    announce_block(p);
    free_permanently(launder(p));
    for (int i = 0; i < 1000; i++)
        free(launder(malloc(size)));
    MISUSE({
        if (how == 0)
            free(launder(p));
        else if (how == 1)
            p = realloc(launder(p), size * 3);
        else if (how == 2)
            free_permanently(launder(p));
        else
            size += malloc_usable_size(launder(p));
    })
    CHECK(how < 4);
    return END;
}
