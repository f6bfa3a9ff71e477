// A block that is freed to another zone than its own.
// expect: signal ABRT
// stderr: toft: invalid free: toft_zone_free({p}): this 64-byte block is of zone "first", not of the one that was named
// libc: skip it has no zones
// twin: frees each to its own
// promise: 4
#include "zones.h"

int main(void)
{
    uint64_t first = zone_named("first"), second = zone_named("second");
    void *p = from_zone(first, 64), *q = from_zone(second, 64);
    announce("p", p);
    MISUSE(zone_free(second, launder(p));)
    CORRECT(zone_free(first, p);)
    zone_free(second, q);
    return END;
}
