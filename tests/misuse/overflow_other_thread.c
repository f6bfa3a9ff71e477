// A byte behind a block is written, and another thread frees it.
// flags: -pthread
// build: secure the default one does not look
// run: 64
// run: 5000
// expect: signal ABRT
// stderr: toft: heap overflow: free({p}): byte 0 behind this {size}-byte block was overwritten ({re:small|medium} slab, slot {n}, partition {n}; call site {addr})
// twin: writes the last byte
// promise: 7 30
#include "common.h"

static void *freer(void *p)
{
    free(launder(p));
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    unsigned char *p = launder(malloc(size));
    CHECK(p);
    announce_block(p);
    CORRECT(p[size - 1] = 1;)
    MISUSE(p[size] ^= 0x5A;)
    join(spawn(freer, p));
    return END;
}
