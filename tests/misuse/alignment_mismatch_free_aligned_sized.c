// free_aligned_sized with another alignment than that of aligned_alloc.
// build: secure the default one believes it
// run: 128 64 128
// run: 128 128 64
// run: 128 64 16
// run: 300000 64 4096
// expect: signal ABRT
// stderr: toft: alignment mismatch: free_aligned_sized({p}): this {size}-byte block was {re:not requested at a multiple of [0-9]+|requested with an alignment} ({re:small slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// twin: names its own
// promise: 5
#include "common.h"

int main(int argc, char **argv)
{
    free_aligned_sized_fn free_aligned_sized = (free_aligned_sized_fn)symbol("free_aligned_sized");
    CORRECT(if (!free_aligned_sized) return 0;)
    CHECK(free_aligned_sized);
    CHECK(argc == 4);
    size_t size = strtoul(argv[1], NULL, 10);
    size_t align = strtoul(argv[2], NULL, 10), given = strtoul(argv[3], NULL, 10);
    void *p = launder(aligned_alloc(align, size));
    CHECK(p);
    announce_block(p);
    CORRECT(given = align;)
    free_aligned_sized(p, given, size);
    return END;
}
