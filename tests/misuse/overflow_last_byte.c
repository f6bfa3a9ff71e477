// The last byte of a block's slot is written: 11 bytes behind a block of 100, in a slot of 112.
// build: secure the default one does not look
// expect: signal ABRT
// stderr: toft: heap overflow: free({p}): byte 11 behind this {size}-byte block was overwritten (small slab, slot {n}, partition {n}; call site {addr})
// twin: leaves it alone
// promise: 7
#include "common.h"

int main(void)
{
    unsigned char *p = launder(malloc(100));
    CHECK(p);
    announce_block(p);
    MISUSE(p[111] ^= 0x5A;)
    free(launder(p));
    return END;
}
