// A block of a private zone that is freed again.
// expect: signal ABRT
// stderr: toft: double free: toft_zone_free({p}): this 64-byte block is already free (slot 0 of zone "twice", free)
// libc: skip it has no zones
// twin: frees it once
// promise: 4
#include "zones.h"

int main(void)
{
    uint64_t zone = zone_named("twice");
    void *p = from_zone(zone, 60);
    announce("p", p);
    zone_free(zone, p);
    MISUSE(zone_free(zone, launder(p));)
    return END;
}
