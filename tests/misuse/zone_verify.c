// A slot of a zone that is written to after it was freed: toft_zone_verify finds it.
// build: secure it looks at what is free
// expect: signal ABRT
// stderr: toft: write after free: toft_zone_verify({p}): byte 100 of this freed 256-byte block was overwritten (zone "written")
// libc: skip it has no zones
// twin: leaves it alone
// promise: 12
#include "zones.h"

int main(void)
{
    uint64_t zone = zone_named("written");
    char *p = from_zone(zone, 256);
    announce("p", p);
    zone_free(zone, p);
    CHECK(zone_verify(zone) == 0);
    MISUSE(((volatile char *)launder(p))[100] = 1;)
    CHECK(zone_verify(zone) == 0);
    return END;
}
