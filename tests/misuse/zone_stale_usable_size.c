// A handle of a zone that was destroyed, in toft_zone_usable_size: although another zone has its place by then.
// expect: signal ABRT
// stderr: toft: invalid zone: toft_zone_usable_size({handle}): the zone of this handle was destroyed
// libc: skip it has no zones
// twin: does not use it any more
// promise: 4 12
#include "zones.h"

int main(void)
{
    uint64_t handle = zone_named("old");
    void *p = from_zone(handle, 64);
    announce("handle", (void *)handle);
    CHECK(p && zone_destroy(handle) == 0);
    uint64_t other = zone_named("new");
    CHECK(other != handle && from_zone(other, 64) != p);
    MISUSE((void)zone_usable_size(handle, launder(p));)
    return END;
}
