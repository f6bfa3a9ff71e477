// A handle of a zone that was destroyed, in each call that takes one: although another zone has its
// place by then.
// run: malloc
// run: calloc
// run: aligned_alloc
// run: free
// run: usable_size
// run: verify
// run: destroy
// run: rename
// run: stats
// expect: signal ABRT
// stderr: toft: invalid zone: toft_zone_{call}({handle}): the zone of this handle was destroyed
// libc: skip it has no zones
// twin: uses the zone that there is
// promise: 4 12
#include "zones.h"

static uint64_t zone;
static void *block;

static void call_malloc(void) { CHECK(zone_malloc(zone, 8)); }
static void call_calloc(void) { CHECK(zone_calloc(zone, 2, 4)); }
static void call_aligned_alloc(void) { CHECK(zone_aligned_alloc(zone, 64, 64)); }
static void call_free(void) { zone_free(zone, launder(block)); }
static void call_usable_size(void) { CHECK(zone_usable_size(zone, launder(block)) >= 64); }
static void call_verify(void) { CHECK(zone_verify(zone) == 0); }
static void call_destroy(void) { CHECK(zone_destroy(zone) == 0); }
static void call_rename(void) { CHECK(zone_rename(zone, "x") == 0); }
static void call_stats(void) { (void)stats_of(zone); }

/* What allocates is one call to the library. */
#define CALL(name, said) {#name, said, call_##name}
static const struct {
    const char *name, *said;
    void (*make)(void);
} call[] = {
    CALL(malloc, "malloc"), CALL(calloc, "malloc"), CALL(aligned_alloc, "malloc"),
    CALL(free, "free"), CALL(usable_size, "usable_size"), CALL(verify, "verify"),
    CALL(destroy, "destroy"), CALL(rename, "rename"), CALL(stats, "stats"),
};

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    zone = zone_named("old");
    block = from_zone(zone, 64);
    announce("handle", (void *)zone);
    uint64_t other;
    void *there;
    CHECK(zone_destroy(zone) == 0);
    CHECK((other = zone_named("new")) != zone && (there = from_zone(other, 64)) != block);
    CORRECT(zone = other; block = there;)
    for (size_t i = 0; i < sizeof call / sizeof *call; i++)
        if (strcmp(call[i].name, argv[1]) == 0) {
            announce_word("call", call[i].said);
            call[i].make();
            return END;
        }
    CHECK(!"known");
}
