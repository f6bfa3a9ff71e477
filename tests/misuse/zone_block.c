// A block of a zone that is given to malloc's calls.
// expect: signal ABRT
// libc: skip it has no zones
// twin: frees it to its zone
// promise: 4
// case: zone_block_to_free -DCALL=free(p)
// stderr: toft: invalid free: free({p}): this 64-byte block is not malloc's (slot 0 of zone "own", live)
// case: zone_block_to_realloc -DCALL=launder_size((size_t)realloc(p,100))
// stderr: toft: invalid free: realloc({p}): this 64-byte block is not malloc's (slot 0 of zone "own", live)
// case: zone_block_to_malloc_usable_size -DCALL=launder_size(malloc_usable_size(p))
// stderr: toft: invalid free: malloc_usable_size({p}): this 64-byte block is not malloc's (slot 0 of zone "own", live)
#include "zones.h"

int main(void)
{
    uint64_t zone = zone_named("own");
    void *p = from_zone(zone, 64);
    announce("p", p);
    MISUSE(CALL;)
    zone_free(zone, p);
    return END;
}
