// A block of a zone that is given to free.
// expect: signal ABRT
// stderr: toft: invalid free: free({p}): this 64-byte block is not malloc's (slot 0 of zone "own", live)
// libc: skip it has no zones
// twin: frees it to its zone
// promise: 4
#include "zones.h"

int main(void)
{
    uint64_t zone = zone_named("own");
    void *p = from_zone(zone, 64);
    announce("p", p);
    MISUSE(free(p);)
    zone_free(zone, p);
    return END;
}
