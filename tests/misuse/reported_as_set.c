// A block freed twice, with options that are wrong, or that say how it is reported.
// expect: signal ABRT
// libc: skip it has no such option
// case: unknown_option
// An option that does not exist is named once, and so is a value that cannot be; the defaults hold.
// env: TOFT_FOO=1
// env: TOFT_PARTITIONS=abc
// stderr: {re:toft: unknown option TOFT_FOO|toft: TOFT_PARTITIONS=abc is not a number from 1 to 4096, exact or exact:NUMBER; using (64|exact)}
// stderr: {re:toft: unknown option TOFT_FOO|toft: TOFT_PARTITIONS=abc is not a number from 1 to 4096, exact or exact:NUMBER; using (64|exact)}
// stderr: toft: double free: free({p}): this 64-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// promise: 29
// case: unknown_policy
// A misspelt policy does not weaken anything: it is named, and misuse aborts.
// env: TOFT_ON_MISUSE=log
// stderr: toft: TOFT_ON_MISUSE=log {re:.+; using abort}
// stderr: toft: double free: free({p}): this 64-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// promise: 29
// case: warn_secure
// No variable makes the secure library go on after a misuse.
// build: secure walls
// env: TOFT_ON_MISUSE=warn
// stderr: toft: TOFT_ON_MISUSE=warn is not for the secure build; using abort
// stderr: toft: double free: free({p}): this 64-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// promise: 29
// case: report_line
// TOFT_REPORT=line: one line and no more, of a call that ends the process.
// env: TOFT_REPORT=line
// stderr: toft: double free: free({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// stderr-details: none
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
