// A handle with one bit changed: of each bit in turn, all are refused.
// expect: signal ABRT
// stderr: toft: invalid zone: toft_zone_malloc({handle}): there never was a zone with this handle
// libc: skip it has no zones
// twin: uses the real one
// promise: 4
#include "zones.h"

int main(void)
{
    uint64_t zone = zone_named("real");
    for (int i = 0; i < 100; i++)
        CHECK(zone_named("more"));
    CHECK(from_zone(zone, 8));
    uint64_t forged = zone ^ (uint64_t)1 << (getpid() & 63);
    announce("handle", (void *)forged);
    MISUSE(zone_malloc(forged, 8);)
    return END;
}
