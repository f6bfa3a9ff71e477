// build: secure walls
// The bytes behind a large block whose size is no multiple of 16 are watched: a write there is
// found when the block is freed, or when its size changes. One byte of slack is enough.
// promise: 7
// expect: signal ABRT
// twin: writes the last byte
// libc: skip it does not look
// case: large_behind_odd -DSIZE=200003 -DBEHIND=1
// stderr: toft: heap overflow: free({p}): byte 1 behind this 200003-byte block was overwritten (large block, partition {n}; call site {addr})
// case: large_behind_by_one -DSIZE=200015 -DBEHIND=0
// stderr: toft: heap overflow: free({p}): byte 0 behind this 200015-byte block was overwritten (large block, partition {n}; call site {addr})
// case: large_behind_realloc -DSIZE=200003 -DBEHIND=2 -DRESIZED
// stderr: toft: heap overflow: realloc({p}): byte 2 behind this 200003-byte block was overwritten (large block, partition {n}; call site {addr})
#include "common.h"

int main(void)
{
    size_t size = SIZE;
    unsigned char *p = malloc(size);
    CHECK(p);
    announce("p", p);
    CORRECT(((volatile unsigned char *)launder(p))[size - 1] ^= 0x55;)
    MISUSE(((volatile unsigned char *)launder(p))[size + BEHIND] ^= 0x55;)
#ifdef RESIZED
    p = realloc(p, 900000);
#endif
    free(p);
    return END;
}
