// build: secure walls
// What lies before a large block on its first page is watched: a write there is found at the free.
// promise: 8
// expect: signal ABRT
// stderr: toft: heap underflow: free({p}): byte 32 before this 200000-byte block was overwritten (large block, partition {n}; call site {addr})
// twin: writes the first byte
// libc: skip it finds something else
#include "common.h"

int main(void)
{
    unsigned char *p = malloc(200000);
    CHECK(p);
    announce("p", p);
    CORRECT(((volatile unsigned char *)launder(p))[0] ^= 0x55;)
    MISUSE(((volatile unsigned char *)launder(p))[-32] ^= 0x55;)
    free(p);
    return END;
}
