// A byte after a block that is not freed: toft_verify checks it all the same.
// run: 20
// run: 1000
// run: 40000
// build: secure the default one has no canaries
// expect: signal ABRT
// stderr: toft: heap overflow: verify({p}): byte 0 behind this {size}-byte block was overwritten ({re:small|medium} slab, slot {n}, partition {n}; call site {addr})
// libc: skip it has no such function
// twin: writes the last byte
// promise: 7
#include "common.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    int (*verify)(void) = (int (*)(void))symbol("toft_verify");
    CHECK(verify);
    size_t size = strtoul(argv[1], NULL, 10);
    unsigned char *p = launder(malloc(size));
    for (int i = 0; i < 100000; i++)
        free(launder(malloc((size_t)i % 3000)));
    announce_block(p);
    CHECK(verify() == 0);
    CORRECT(p[size - 1] ^= 0x5A;)
    MISUSE(p[size] ^= 0x5A;)
    CHECK(verify() == 0);
    return END;
}
