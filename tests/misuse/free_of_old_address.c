// free of an address whose block was freed, by realloc or by free, or of one inside it.
// run: 64
// run: 5000
// expect: signal ABRT
// libc: skip glibc says it in other words or not at all
// promise: 4
// case: double_free_realloc_zero
// realloc to size 0 frees.
// run: 300000
// stderr: toft: double free: free({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// twin: frees only with free
// case: stale_after_realloc
// realloc has moved the block.
// stderr: toft: double free: free({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// twin: frees the new address
// case: interior_of_freed
// run: 300000
// stderr: toft: invalid free: free({q}): 16 bytes inside the {size}-byte block at {p} ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}, {free|live|already free}; call site {addr})
// twin: frees it once
#include "common.h"

HELPER void double_free_realloc_zero(char *p)
{
    MISUSE(CHECK(realloc(p, launder_size(0)) == NULL);)
    free(launder(p));
}

HELPER void stale_after_realloc(char *p)
{
    void *old = launder(p);
    p = realloc(p, malloc_usable_size(p) * 40);
    /* glibc may have grown it in place. */
    CHECK(p && (p != old || !on_toft()));
    MISUSE(free(old);)
    free(p);
}

HELPER void interior_of_freed(char *p)
{
    free(p);
    MISUSE(free(launder(p + 16));)
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    char *p = launder(malloc(strtoul(argv[1], NULL, 10)));
    CHECK(p);
    announce_block(p);
    announce("q", p + 16);
    CASE(p);
    return END;
}
