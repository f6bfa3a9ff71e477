// build: secure walls
// One byte of slack is enough: what is written there is found at the free.
// promise: 7
// expect: signal ABRT
// stderr: toft: heap overflow: free({p}): byte 0 behind this 200015-byte block was overwritten (large block, partition {n}; call site {addr})
// twin: writes the last byte
// libc: skip it does not look
#include "common.h"

int main(void)
{
    size_t size = 200015;
    unsigned char *p = malloc(size);
    CHECK(p);
    announce("p", p);
    CORRECT(((volatile unsigned char *)launder(p))[size - 1] ^= 0x55;)
    MISUSE(((volatile unsigned char *)launder(p))[size] ^= 0x55;)
    free(p);
    return END;
}
