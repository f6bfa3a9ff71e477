// realloc to size 0 frees; a free after it is one too many.
// run: 64
// run: 5000
// run: 300000
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: frees only with free
// promise: 4
#include "common.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    void *p = launder(malloc(size));
    CHECK(p);
    announce_block(p);
    MISUSE(CHECK(realloc(p, launder_size(0)) == NULL);)
    free(launder(p));
    return END;
}
