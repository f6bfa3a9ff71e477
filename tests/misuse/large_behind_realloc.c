// build: secure walls
// A write behind a large block is found when its size changes, too.
// promise: 7
// expect: signal ABRT
// stderr: toft: heap overflow: realloc({p}): byte 2 behind this 200003-byte block was overwritten (large block, partition {n}; call site {addr})
// twin: writes the last byte
// libc: skip it does not look
#include "common.h"

int main(void)
{
    size_t size = 200003;
    unsigned char *p = malloc(size);
    CHECK(p);
    announce("p", p);
    CORRECT(((volatile unsigned char *)launder(p))[size - 1] ^= 0x55;)
    MISUSE(((volatile unsigned char *)launder(p))[size + 2] ^= 0x55;)
    free(realloc(p, 900000));
    return END;
}
