// A pointer into a block of a zone.
// expect: signal ABRT
// stderr: toft: invalid free: toft_zone_free({q}): 16 bytes inside the 64-byte block at {p} (slot 0 of zone "inside", live)
// libc: skip it has no zones
// twin: frees the start
// promise: 4
#include "zones.h"

int main(void)
{
    uint64_t zone = zone_named("inside");
    char *p = from_zone(zone, 64);
    announce("p", p);
    announce("q", p + 16);
    MISUSE(zone_free(zone, launder(p + 16));)
    CORRECT(zone_free(zone, p);)
    return END;
}
