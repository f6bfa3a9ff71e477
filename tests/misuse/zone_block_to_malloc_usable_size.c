// A block of a zone that is given to malloc_usable_size.
// expect: signal ABRT
// stderr: toft: invalid free: malloc_usable_size({p}): this 64-byte block is not malloc's (slot 0 of zone "own", live)
// libc: skip it has no zones
// twin: frees it to its zone
// promise: 4
#include "zones.h"

int main(void)
{
    uint64_t zone = zone_named("own");
    void *p = from_zone(zone, 64);
    announce("p", p);
    MISUSE(launder_size((size_t)malloc_usable_size(p));)
    zone_free(zone, p);
    return END;
}
