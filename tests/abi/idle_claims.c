// What sleeping threads have claimed goes by itself, when it has lain idle.
// flags: -pthread
// env: TOFT_PARTITIONS=1
// env: TOFT_DECAY=300
// timeout: 120
// libc: skip has no thread that gives memory back
// build: default reckons with the default build's slots
#include "claims.h"

static size_t grown_with_claims(void)
{
    return grown();
}

static void give_back(const char *stage, struct bound b)
{
    comes_within(stage, b);
}
