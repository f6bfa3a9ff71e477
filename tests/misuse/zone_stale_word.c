// A tagged word that is resolved after its block was freed, or its zone destroyed.
// expect: signal ABRT
// libc: skip it has no zones
// twin: resolves what is live
// promise: 12
// case: zone_stale_tag_freed -DENDS=zone_free(zone,p)
// stderr: toft: use after free: toft_zone_resolve({p}): tag {n} is not that of the 64-byte block at {p} (zone "tagged", free)
// case: zone_stale_tag_destroyed -DENDS=CHECK(zone_destroy(zone)==0)
// stderr: toft: use after free: toft_zone_resolve({p}): no private zone has this address any more, nor has anybody else
#include "zones.h"

int main(void)
{
    uint64_t zone = zone_create_with("tagged", 0, ZONE_TAGGED);
    CHECK(zone);
    char *p = from_zone(zone, 64);
    uint64_t word = zone_tag(p);
    announce("p", p);
    CHECK(zone_resolve(word) == p);
    MISUSE(ENDS;)
    CHECK(zone_resolve(launder_size(word)) == p);
    return END;
}
