// In a setuid program no variable weakens the library or makes it speak, and reports show no
// address.
// setuid: run by another user than its owner
// env: TOFT_ON_MISUSE=warn
// env: TOFT_PARTITIONS=1
// env: TOFT_FOO=1
// env: TOFT_REPORT=full,/tmp/toft-at-secure
// env: TOFT_HINTS=/tmp/toft-at-secure
// env: TOFT_STATS=1
// expect: signal ABRT
// stderr: toft: double free: free(0x?): this 64-byte block is already free (small slab, slot {n}, partition {n}; call site 0x?)
// stderr-details: none
// libc: skip it has no such option
// promise: 29
#include "common.h"
#include <sys/auxv.h>

int main(void)
{
    CHECK(getauxval(AT_SECURE) == 1);
    CHECK(on_toft());
    void *p = launder(malloc(64));
    free(p);
    free(launder(p));
    return 77;
}
