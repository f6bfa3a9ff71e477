// A byte behind a block is written; realloc sees it, whether the block would stay or move.
// build: secure the default one does not look
// run: 100 101
// run: 100 4000
// run: 5000 100
// run: 5000 200000
// expect: signal ABRT
// stderr: toft: heap overflow: realloc({p}): byte 0 behind this {size}-byte block was overwritten ({re:small|medium} slab, slot {n}, partition {n}; call site {addr})
// twin: writes the last byte
// promise: 7
#include "common.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t size = strtoul(argv[1], NULL, 10), next = strtoul(argv[2], NULL, 10);
    unsigned char *p = launder(malloc(size));
    CHECK(p);
    announce_block(p);
    CORRECT(p[size - 1] = 1;)
    MISUSE(p[size] ^= 0x5A;)
    p = realloc(launder(p), next);
    CHECK(p);
    free(p);
    return END;
}
