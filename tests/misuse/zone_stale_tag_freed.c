// A tagged word that is resolved after its block was freed.
// expect: signal ABRT
// stderr: toft: use after free: toft_zone_resolve({p}): tag {n} is not that of the 64-byte block at {p} (zone "tagged", free)
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
    MISUSE(zone_free(zone, p);)
    CHECK(zone_resolve(launder_size(word)) == p);
    return END;
}
