// TOFT_REPORT=line: one line and no more, of a call that ends the process.
// env: TOFT_REPORT=line
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// stderr-details: none
// libc: skip it has no such option
// promise: 28
#include "common.h"

int main(void)
{
    void *p = launder(malloc(64));
    announce_block(p);
    free(p);
    free(launder(p));
    return 77;
}
