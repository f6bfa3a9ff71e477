// An address between two zero-size blocks is no block.
// promise: 4 10
// expect: signal ABRT
// stderr: toft: invalid free: free({q}): 8 bytes inside the 0-byte block at {p} (of no bytes)
// twin: frees the block
// libc: skip it says something else
#include "common.h"

int main(void)
{
    char *p = launder(malloc(launder_size(0)));
    announce("p", p);
    announce("q", p + 8);
    CORRECT(free(p);)
    MISUSE(free(launder(p + 8));)
    return END;
}
