// An over-aligned block freed twice.
// run: 64 100
// run: 4096 100
// run: 1024 100000
// run: 1048576 70000
// run: 65536 1000000
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: frees it once
// promise: 4
#include "common.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t alignment = strtoul(argv[1], NULL, 10), size = strtoul(argv[2], NULL, 10);
    char *p = launder(aligned_alloc(alignment, size));
    CHECK(p);
    announce_block(p);
    free(p);
    MISUSE(free(launder(p));)
    return END;
}
