// A large block of a zone that is freed again: its address is unowned by then.
// expect: signal ABRT
// stderr: toft: invalid free: toft_zone_free({p}): no private zone has this address any more, nor has anybody else
// libc: skip it has no zones
// twin: frees it once
// promise: 4
#include "zones.h"

int main(void)
{
    uint64_t zone = zone_named("large");
    char *p = from_zone(zone, 1 << 20);
    announce("p", p);
    p[(1 << 20) - 1] = 1;
    zone_free(zone, p);
    MISUSE(zone_free(zone, launder(p));)
    return END;
}
