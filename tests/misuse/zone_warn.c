// TOFT_ON_MISUSE=warn: bad calls about zones are named and refused, with errno, and nothing
// changes.
// build: default the secure one ends the process
// env: TOFT_ON_MISUSE=warn
// stderr: toft: double free: toft_zone_free({p}): this 64-byte block is already free (slot 0 of zone "warned", free)
// stderr: toft: invalid free: toft_zone_usable_size({p}): this 64-byte block is of zone "warned", not of the one that was named
// stderr: toft: invalid zone: toft_zone_malloc({gone}): the zone of this handle was destroyed
// stderr: toft: invalid zone: toft_zone_destroy({gone}): the zone of this handle was destroyed
// stderr: toft: invalid zone: toft_zone_verify(0x0): zero is the handle of no zone
// libc: skip it has no zones
// promise: 4
#include "zones.h"

int main(void)
{
    uint64_t zone = zone_named("warned"), other = zone_named("other"), gone = zone_named("gone");
    void *p = from_zone(zone, 64);
    announce("p", p);
    announce("gone", (void *)gone);
    zone_free(zone, p);
    errno = 0;
    zone_free(zone, launder(p));
    CHECK(stats_of(zone).live_blocks == 0);
    for (int i = 1; i < 1024; i++)
        CHECK(from_zone(zone, 64) != p);
    CHECK(from_zone(zone, 64) == p);
    CHECK(zone_usable_size(other, p) == 0 && errno == EINVAL);
    CHECK(zone_destroy(gone) == 0);
    errno = 0;
    CHECK(zone_malloc(gone, 8) == NULL && errno == EINVAL);
    CHECK(zone_destroy(gone) == -1);
    CHECK(zone_verify(0) == -1);
    CHECK(zone_verify(zone) == 0);
    return 0;
}
