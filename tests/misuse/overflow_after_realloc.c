// A block is made smaller, and larger again, where it is: its end is where it was asked to be last.
// build: secure the default one does not look
// run: 110 105
// run: 98 111
// run: 5000 4700
// run: 4700 5000
// expect: signal ABRT
// stderr: toft: heap overflow: free({p}): byte 0 behind this {size}-byte block was overwritten ({re:small|medium} slab, slot {n}, partition {n}; call site {addr})
// twin: writes the last byte
// promise: 7 11
#include "common.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t before = strtoul(argv[1], NULL, 10), size = strtoul(argv[2], NULL, 10);
    unsigned char *p = launder(malloc(before));
    CHECK(p);
    memset(p, 0xAA, before);
    unsigned char *q = realloc(launder(p), size);
    CHECK(q == p);
    announce_block(q);
    CHECK(malloc_usable_size(q) == size);
    for (size_t i = 0; i < size; i++)
        CHECK(q[i] == (i < before ? 0xAA : 0));
    CORRECT(q[size - 1] = 1;)
    MISUSE(q[size] ^= 0x5A;)
    free(launder(q));
    return END;
}
