// A tagged word that is resolved after its zone was destroyed.
// expect: signal ABRT
// stderr: toft: use after free: toft_zone_resolve({p}): no private zone has this address any more, nor has anybody else
// libc: skip it has no zones
// twin: resolves what is live
// promise: 12
#include "zones.h"

int main(void)
{
    uint64_t zone = zone_create_with("tagged", 0, ZONE_TAGGED);
    CHECK(zone);
    char *p = from_zone(zone, 64);
    uint64_t word = zone_tag(p);
    announce("p", p);
    CHECK(zone_resolve(word) == p);
    MISUSE(CHECK(zone_destroy(zone) == 0);)
    CHECK(zone_resolve(launder_size(word)) == p);
    return END;
}
