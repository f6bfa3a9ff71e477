// An address of a zone at which no block has begun yet.
// expect: signal ABRT
// stderr: toft: invalid free: toft_zone_free({q}): never handed out (64-byte slot {n} of zone "fresh", never handed out)
// libc: skip it has no zones
// twin: frees what was handed out
// promise: 4
#include "zones.h"

int main(void)
{
    uint64_t zone = zone_named("fresh");
    char *p = from_zone(zone, 64);
    announce("q", p + 640);
    MISUSE(zone_free(zone, launder(p + 640));)
    CORRECT(zone_free(zone, p);)
    return END;
}
