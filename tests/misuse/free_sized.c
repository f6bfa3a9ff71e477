// free_sized of a freed block, twice, and of an address inside a block.
// run: 64
// run: 5000
// run: 300000
// expect: signal ABRT
// libc: skip glibc says it in other words or not at all
// twin: frees it once
// promise: 4
// case: free_sized_freed
// stderr: toft: double free: free_sized({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// case: free_sized_twice
// stderr: toft: double free: free_sized({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// case: free_sized_interior
// stderr: toft: invalid free: free_sized({q}): 8 bytes inside the {size}-byte block at {p} ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}, live; call site {addr})
#include "common.h"

static free_sized_fn free_sized;

HELPER void free_sized_freed(char *p, size_t size)
{
    MISUSE(free(p);)
    free_sized(launder(p), size);
}

HELPER void free_sized_twice(char *p, size_t size)
{
    free_sized(p, size);
    MISUSE(free_sized(launder(p), size);)
}

HELPER void free_sized_interior(char *p, size_t size)
{
    free_sized(launder(p) MISUSE(+ 8), size);
}

int main(int argc, char **argv)
{
    free_sized = (free_sized_fn)symbol("free_sized");
    CORRECT(if (!free_sized) return 0;)
    CHECK(free_sized);
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    char *p = launder(malloc(size));
    CHECK(p);
    announce_block(p);
    announce("q", p + 8);
    CASE(p, size);
    return END;
}
