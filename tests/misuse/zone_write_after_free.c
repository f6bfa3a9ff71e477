// A slot of a zone that is written to after it was freed, until it is handed out again.
// build: secure it looks at what is free
// expect: signal ABRT
// stderr: toft: write after free: toft_zone_malloc({p}): byte 9 of this freed 704-byte block was overwritten (zone "written")
// libc: skip it has no zones
// twin: leaves it alone
// promise: 12
#include "zones.h"

int main(void)
{
    uint64_t zone = zone_named("written");
    char *p = from_zone(zone, 700);
    announce("p", p);
    zone_free(zone, p);
    MISUSE(((volatile char *)launder(p))[9] = 1;)
    for (int i = 0; i < 4096; i++)
        zone_free(zone, from_zone(zone, 700));
    return END;
}
