// A linear overflow of a zone's block stays within that zone: it faults before it reaches what is
// after the zone. So does one downwards. After a large block it faults at its last page's end.
// libc: skip it has no zones
// promise: 9
#include "faults.h"
#include "zones.h"

int main(void)
{
    catch_faults();
    uint64_t first = zone_named("first"), second = zone_named("second");
    for (int i = 0; i < 40; i++) {
        unsigned char *p = from_zone(first, 100), *q = from_zone(second, 100);
        CHECK(sweep(p, 1, 1 << 30) < (size_t)64 << 20);
        CHECK(sweep(p, -1, 1 << 30) < (size_t)64 << 20);
        uintptr_t up = (uintptr_t)p + sweep(p, 1, 1 << 30), down = (uintptr_t)p - sweep(p, -1, 1 << 30);
        CHECK((uintptr_t)q < down || (uintptr_t)q >= up);
    }
    unsigned char *large = from_zone(first, 100000);
    CHECK(sweep(large, 1, 1 << 30) == zone_usable_size(first, large));
    CHECK(sweep(large, -1, 1 << 30) == 0);
    return 0;
}
