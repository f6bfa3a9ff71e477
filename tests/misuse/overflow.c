// One byte after the requested size is written.
// build: secure the default one does not look
// expect: signal ABRT
// stderr: toft: heap overflow: free({p}): byte 0 behind this {size}-byte block was overwritten ({re:small|medium} slab, slot {n}, partition {n}; call site {addr})
// run: 64
// twin: writes the last byte
// promise: 7 30
// case: overflow_one_byte -DFREES=free
// Whatever the size.
// run: 1
// run: 8
// run: 15
// run: 16
// run: 24
// run: 25
// run: 100
// run: 1000
// run: 1024
// run: 4000
// run: 4096
// run: 40000
// run: 131071
// case: overflow_other_thread -DFREES=free_elsewhere -pthread
// Another thread frees the block.
// run: 5000
#include "common.h"

static void *freer(void *p)
{
    free(launder(p));
    return NULL;
}

HELPER void free_elsewhere(void *p)
{
    join(spawn(freer, p));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    unsigned char *p = launder(malloc(size));
    CHECK(p);
    announce_block(p);
    CHECK(malloc_usable_size(p) == size);
    memset(p, 0xAA, size);
    CORRECT(p[size - 1] ^= 0x5A;)
    MISUSE(p[size] ^= 0x5A;)
    FREES(launder(p));
    return END;
}
