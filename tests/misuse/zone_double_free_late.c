// A block of a zone that is freed again after many other calls, which had it meanwhile or not.
// expect: signal ABRT
// stderr: toft: double free: toft_zone_free({p}): this 48-byte block is already free (slot {n} of zone "late", free)
// libc: skip it has no zones
// twin: frees it once
// promise: 4
#include "zones.h"

int main(void)
{
    uint64_t zone = zone_named("late");
    void *p = from_zone(zone, 48);
    announce("p", p);
    zone_free(zone, p);
    for (int i = 0; i < 1000; i++)
        zone_free(zone, from_zone(zone, 48));
    MISUSE(zone_free(zone, launder(p));)
    return END;
}
