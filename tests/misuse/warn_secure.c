// build: secure walls
// No variable makes the secure library go on after a misuse.
// env: TOFT_ON_MISUSE=warn
// expect: signal ABRT
// stderr: toft: TOFT_ON_MISUSE=warn is not for the secure build; using abort
// stderr: toft: double free: free({p}): this 64-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// libc: skip it has no such option
// promise: 29
#include "common.h"

int main(void)
{
    void *p = launder(malloc(64));
    announce("p", p);
    free(p);
    free(launder(p));
    return 77;
}
