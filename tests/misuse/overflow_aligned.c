// A byte behind an aligned block is written.
// build: secure the default one does not look
// run: 64 64
// run: 64 10
// run: 4096 100
// run: 4096 8192
// expect: signal ABRT
// stderr: toft: heap overflow: free({p}): byte 0 behind this {size}-byte block was overwritten ({re:small|medium} slab, slot {n}, partition {n}; call site {addr})
// twin: writes the last byte
// promise: 7
#include "common.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t align = strtoul(argv[1], NULL, 10), size = strtoul(argv[2], NULL, 10);
    unsigned char *p = launder(memalign(align, size));
    CHECK(p && (uintptr_t)p % align == 0);
    announce_block(p);
    CHECK(malloc_usable_size(p) == size);
    CORRECT(p[size - 1] = 1;)
    MISUSE(p[size] ^= 0x5A;)
    free(launder(p));
    return END;
}
