// A block of malloc's that is freed to a zone.
// expect: signal ABRT
// stderr: toft: invalid free: toft_zone_free({p}): not a block of a private zone, but an address of malloc's
// libc: skip it has no zones
// twin: frees each where it came from
// promise: 4
#include "zones.h"

int main(void)
{
    uint64_t zone = zone_named("own");
    void *p = launder(malloc(64)), *q = from_zone(zone, 64);
    announce("p", p);
    MISUSE(zone_free(zone, p);)
    CORRECT(free(p);)
    zone_free(zone, q);
    return END;
}
