/* Private zones, looked up where the library has them: the tests are preloaded, not linked. */
#ifndef TOFT_TESTS_ZONES_H
#define TOFT_TESTS_ZONES_H

#include "common.h"

#define ZONES(X)                                                                                   \
    X(uint64_t, create, (const char *))                                                            \
    X(uint64_t, create_with, (const char *, size_t, unsigned))                                     \
    X(void *, malloc, (uint64_t, size_t))                                                          \
    X(void *, calloc, (uint64_t, size_t, size_t))                                                  \
    X(void *, aligned_alloc, (uint64_t, size_t, size_t))                                           \
    X(void, free, (uint64_t, void *))                                                              \
    X(size_t, usable_size, (uint64_t, const void *))                                               \
    X(int, verify, (uint64_t))                                                                     \
    X(int, destroy, (uint64_t))                                                                    \
    X(int, rename, (uint64_t, const char *))                                                       \
    X(int, stats, (uint64_t, struct zone_stats *))                                                 \
    X(uint64_t, tag, (const void *))                                                               \
    X(void *, resolve, (uint64_t))

enum { ZONE_TAGGED = 1 };

struct zone_stats {
    uint64_t live_blocks, live_bytes, allocations, mapped_bytes, object_bytes;
    int name_is_shown;
    char name[64];
};

#define X(result, name, arguments) __attribute__((unused)) static result(*zone_##name) arguments;
ZONES(X)
#undef X

__attribute__((constructor)) static void find_zones(void)
{
#define X(result, name, arguments)                                                                 \
    *(void **)&zone_##name = symbol("toft_zone_" #name);                                           \
    CHECK(zone_##name);
    ZONES(X)
#undef X
}

HELPER uint64_t zone_named(const char *name)
{
    uint64_t zone = zone_create(name);
    CHECK(zone);
    return zone;
}

HELPER void *from_zone(uint64_t zone, size_t size)
{
    void *p = launder(zone_malloc(zone, size));
    CHECK(p);
    return p;
}

HELPER struct zone_stats stats_of(uint64_t zone)
{
    struct zone_stats stats;
    CHECK(zone_stats(zone, &stats) == 0);
    return stats;
}

#endif
