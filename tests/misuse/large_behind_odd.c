// build: secure walls
// The byte behind a large block whose size is no multiple of 16 is watched: a write there is found
// when the block is freed.
// promise: 7
// expect: signal ABRT
// stderr: toft: heap overflow: free({p}): byte 1 behind this 200003-byte block was overwritten (large block, partition {n}; call site {addr})
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
    MISUSE(((volatile unsigned char *)launder(p))[size + 1] ^= 0x55;)
    free(p);
    return END;
}
