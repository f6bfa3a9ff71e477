// Private zones do what their page says: blocks of every size, zero where asked, aligned, apart
// from malloc's; errno of what cannot be; figures; names in /proc/self/maps; fixed sizes; NULL.
// libc: skip it has no zones
#include "../zones.h"

static char maps[1 << 20];

static int is_shown(const char *name)
{
    slurp("/proc/self/maps", maps, sizeof maps);
    return strstr(maps, name) != NULL;
}

static void every_size(void)
{
    uint64_t zone = zone_named("every size");
    enum { N = 600 };
    static char *p[N];
    static size_t size[N];
    uint64_t bytes = 0;
    for (int i = 0; i < N; i++) {
        size[i] = i < 400 ? (size_t)i * 3 : (size_t)(i - 399) * 331;
        p[i] = from_zone(zone, size[i]);
        CHECK((uintptr_t)p[i] % 16 == 0);
        CHECK(zone_usable_size(zone, p[i]) >= size[i]);
        bytes += zone_usable_size(zone, p[i]);
        fill(p[i], size[i], (uint64_t)i);
    }
    struct zone_stats stats = stats_of(zone);
    CHECK(stats.live_blocks == N && stats.live_bytes == bytes && stats.allocations == N);
    CHECK(stats.mapped_bytes >= bytes && stats.object_bytes == 0);
    CHECK(zone_verify(zone) == 0);
    for (int i = 0; i < N; i += 2)
        zone_free(zone, p[i]);
    for (int i = 1; i < N; i += 2)
        CHECK(filled(p[i], size[i], (uint64_t)i));
    /* What was in use is zero again where that is asked for. */
    for (int i = 0; i < N; i += 2) {
        CHECK((p[i] = zone_calloc(zone, size[i], 1)));
        for (size_t k = 0; k < size[i]; k++)
            CHECK(p[i][k] == 0);
    }
    CHECK(zone_verify(zone) == 0);
    for (int i = 0; i < N; i++)
        zone_free(zone, p[i]);
    stats = stats_of(zone);
    CHECK(stats.live_blocks == 0 && stats.live_bytes == 0 && stats.allocations == N + N / 2);
    CHECK(zone_verify(zone) == 0);
    CHECK(zone_destroy(zone) == 0);
}

static void alignments(void)
{
    uint64_t zone = zone_named("aligned");
    for (size_t align = 1; align <= (size_t)1 << 24; align *= 2)
        for (size_t size = 1; size < 70000; size = size * 5 + 3) {
            char *p = zone_aligned_alloc(zone, align, size);
            CHECK(p && (uintptr_t)p % align == 0);
            memset(p, 1, size);
            if (size % 2)
                zone_free(zone, p);
        }
    CHECK(zone_verify(zone) == 0);
    CHECK(zone_destroy(zone) == 0);
}

static void what_cannot_be(void)
{
    uint64_t zone = zone_named("cannot");
    errno = 0;
    CHECK(zone_malloc(zone, launder_size(SIZE_MAX)) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(zone_malloc(zone, launder_size((size_t)PTRDIFF_MAX)) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(zone_calloc(zone, launder_size(SIZE_MAX / 2), 3) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(zone_aligned_alloc(zone, 48, 100) == NULL && errno == EINVAL);
    errno = 0;
    CHECK(zone_aligned_alloc(zone, (size_t)1 << 62, 100) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(zone_create_with("flags", 0, 0x80) == 0 && errno == EINVAL);
    errno = 0;
    zone_free(zone, NULL);
    CHECK(zone_usable_size(zone, NULL) == 0 && errno == 0);
    void *p = from_zone(zone, 0), *q = from_zone(zone, 0);
    CHECK(p != q);
    errno = 5;
    zone_free(zone, p);
    CHECK(errno == 5);
    CHECK(zone_destroy(zone) == 0);
}

static void one_size(void)
{
    uint64_t zone = zone_create_with("of one size", 72, 0);
    CHECK(zone && stats_of(zone).object_bytes == 72);
    char *first = from_zone(zone, 72);
    for (int i = 1; i < 800; i++) {
        char *p = from_zone(zone, (size_t)i % 73);
        CHECK(((uintptr_t)p - (uintptr_t)first) % 80 == 0);
        CHECK(zone_usable_size(zone, p) == 80);
    }
    errno = 0;
    CHECK(zone_malloc(zone, 73) == NULL && errno == EINVAL);
    errno = 0;
    CHECK(zone_aligned_alloc(zone, 64, 8) == NULL && errno == EINVAL);
    CHECK(zone_destroy(zone) == 0);
    /* Objects that are too large to share a lot. */
    zone = zone_create_with("large ones", 40000, 0);
    char *a = from_zone(zone, 40000), *b = from_zone(zone, 1);
    memset(a, 1, 40000);
    memset(b, 1, 40000);
    zone_free(zone, a);
    CHECK(zone_destroy(zone) == 0);
}

static void names(void)
{
    uint64_t zone = zone_named("a $name\\ for maps");
    CHECK(strcmp(stats_of(zone).name, "a .name. for maps") == 0);
    memset(from_zone(zone, 100), 1, 100);
    memset(from_zone(zone, 100000), 1, 100000);
    if (!stats_of(zone).name_is_shown) {
        /* The kernel has no names, or a filter may forbid the call. */
        CHECK(!is_shown("toft zone a .name. for maps"));
        return;
    }
    CHECK(is_shown("[anon:toft zone a .name. for maps]"));
    CHECK(zone_rename(zone, "another") == 0);
    CHECK(is_shown("[anon:toft zone another]") && !is_shown("for maps"));
    uint64_t nameless = zone_named(NULL);
    CHECK(from_zone(nameless, 10) && !stats_of(nameless).name_is_shown);
    CHECK(zone_destroy(zone) == 0 && zone_destroy(nameless) == 0);
    CHECK(!is_shown("toft zone another"));
}

int main(void)
{
    every_size();
    alignments();
    what_cannot_be();
    one_size();
    names();
    return 0;
}
