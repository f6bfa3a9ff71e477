// A block that is freed after its zone was destroyed, by free.
// expect: signal ABRT
// stderr: toft: invalid free: free({p}): no private zone has this address any more, nor has anybody else
// libc: skip it has no zones
// twin: leaves it alone
// promise: 4
#include "zones.h"

int main(void)
{
    uint64_t zone = zone_named("gone");
    void *p = from_zone(zone, 64);
    announce("p", p);
    CHECK(zone_destroy(zone) == 0);
    MISUSE(free(launder(p));)
    return END;
}
