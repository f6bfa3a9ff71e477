// A tagged word that is resolved after its block was freed, and again handed out.
// expect: signal ABRT
// stderr: toft: use after free: toft_zone_resolve({p}): tag {n} is not that of the 4096-byte block at {p} (zone "tagged", live again)
// libc: skip it has no zones
// twin: resolves what is live
// promise: 12
#include "zones.h"

int main(void)
{
    uint64_t zone = zone_create_with("tagged", 4096, ZONE_TAGGED);
    CHECK(zone);
    char *p = from_zone(zone, 4096);
    uint64_t word = zone_tag(p);
    announce("p", p);
    CHECK(word >> 56 && zone_resolve(word) == p && zone_resolve(word + 4095) == p + 4095);
    MISUSE(zone_free(zone, p); while (from_zone(zone, 4096) != p) {})
    CHECK(zone_resolve(launder_size(word)));
    return END;
}
