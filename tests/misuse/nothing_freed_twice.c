// A zero-size block can be freed only once.
// promise: 4 10
// expect: signal ABRT
// stderr: toft: double free: free({p}): this 0-byte block is already free (of no bytes)
// twin: frees it once
// libc: skip it says something else
#include "common.h"

int main(void)
{
    for (int i = 0; i < 1000; i++)
        free(launder(malloc(launder_size(0))));
    void *p = launder(malloc(launder_size(0)));
    announce("p", p);
    free(p);
    for (int i = 0; i < 1000; i++)
        free(launder(malloc(launder_size(0))));
    MISUSE(free(launder(p));)
    return END;
}
