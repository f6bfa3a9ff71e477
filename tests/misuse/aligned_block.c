// An over-aligned block is freed twice, or by an address inside it.
// run: 64 100
// run: 4096 100
// run: 1024 100000
// run: 1048576 70000
// run: 65536 1000000
// expect: signal ABRT
// libc: skip glibc says it in other words or not at all
// promise: 4
// case: double_free_aligned -DOFFSET=0
// stderr: toft: double free: free({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// twin: frees it once
// case: interior_aligned -DOFFSET=64
// stderr: toft: invalid free: free({q}): 64 bytes inside the {size}-byte block at {p} ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}, live; call site {addr})
// twin: frees the block itself
#include "common.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t alignment = strtoul(argv[1], NULL, 10), size = strtoul(argv[2], NULL, 10);
    char *p = launder(aligned_alloc(alignment, size));
    CHECK(p);
    announce_block(p);
    announce("q", p + 64);
    if (OFFSET == 0)
        free(p);
    MISUSE(free(launder(p + OFFSET));)
    CORRECT(if (OFFSET != 0) free(p);)
    return END;
}
