// The address of a variable that is freed to a zone.
// expect: signal ABRT
// stderr: toft: invalid free: toft_zone_free({p}): not a block of a private zone
// libc: skip it has no zones
// twin: frees blocks alone
// promise: 4
#include "zones.h"

int main(void)
{
    uint64_t zone = zone_named("own");
    char local[64];
    void *q = from_zone(zone, 64);
    announce("p", launder(local));
    MISUSE(zone_free(zone, launder(local));)
    zone_free(zone, q);
    return END;
}
