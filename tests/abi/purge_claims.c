// A purge reaches what sleeping threads have claimed: whatever they have freed goes, although it is
// what their next malloc hands out, and what they hold stays as it is. With no descriptor to be
// had, what is claimed stays.
// flags: -pthread
// env: TOFT_PARTITIONS=1
// env: TOFT_RECLAIM=calls
// timeout: 120
// libc: skip asks for a purge that reaches sleeping threads
// build: default reckons with the default build's slots
#include "claims.h"

static size_t grown_with_claims(void)
{
    purge_without_descriptors();
    return grown();
}

static void give_back(const char *stage, struct bound b)
{
    purge_all();
    within(stage, b);
}
