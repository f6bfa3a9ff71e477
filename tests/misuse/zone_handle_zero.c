// Zero, where a zone is expected.
// expect: signal ABRT
// stderr: toft: invalid zone: toft_zone_malloc(0x0): zero is the handle of no zone
// libc: skip it has no zones
// twin: asks for nothing
// promise: 4
#include "zones.h"

int main(void)
{
    CHECK(zone_named("any"));
    MISUSE(zone_malloc(0, 8);)
    return END;
}
