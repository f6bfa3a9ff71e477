// free_sized of a freed block.
// run: 64
// run: 5000
// run: 300000
// expect: signal ABRT
// stderr: toft: double free: free_sized({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: frees it once
// promise: 4
#include "common.h"

int main(int argc, char **argv)
{
    free_sized_fn free_sized = (free_sized_fn)symbol("free_sized");
    CORRECT(if (!free_sized) return 0;)
    CHECK(free_sized);

    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    void *p = launder(malloc(size));
    CHECK(p);
    announce_block(p);
    MISUSE(free(p);)
    free_sized(launder(p), size);
    return END;
}
