// An option that does not exist is named once, and so is a value that cannot be; the defaults hold.
// env: TOFT_FOO=1
// env: TOFT_PARTITIONS=abc
// expect: signal ABRT
// stderr: {re:toft: unknown option TOFT_FOO|toft: TOFT_PARTITIONS=abc is not a number from 1 to 4096, exact or exact:NUMBER; using (64|exact)}
// stderr: {re:toft: unknown option TOFT_FOO|toft: TOFT_PARTITIONS=abc is not a number from 1 to 4096, exact or exact:NUMBER; using (64|exact)}
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
