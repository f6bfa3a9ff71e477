// Addresses that are not a live block of the zone they are freed to, and zones that are none.
// expect: signal ABRT
// libc: skip it has no zones
// promise: 4
// case: zone_double_free
// A block of a private zone that is freed again.
// stderr: toft: double free: toft_zone_free({p}): this 64-byte block is already free (slot 0 of zone "twice", free)
// twin: frees it once
// case: zone_double_free_late
// A block of a zone that is freed again after many other calls, which had it meanwhile or not.
// stderr: toft: double free: toft_zone_free({p}): this 48-byte block is already free (slot {n} of zone "late", free)
// twin: frees it once
// case: zone_double_free_large
// A large block of a zone that is freed again: its address is unowned by then.
// stderr: toft: invalid free: toft_zone_free({p}): no private zone has this address any more, nor has anybody else
// twin: frees it once
// case: zone_interior
// A pointer into a block of a zone.
// stderr: toft: invalid free: toft_zone_free({q}): 16 bytes inside the 64-byte block at {p} (slot 0 of zone "inside", live)
// twin: frees the start
// case: zone_never_handed_out
// An address of a zone at which no block has begun yet.
// stderr: toft: invalid free: toft_zone_free({q}): never handed out (64-byte slot {n} of zone "fresh", never handed out)
// twin: frees what was handed out
// case: zone_foreign
// The address of a variable that is freed to a zone.
// stderr: toft: invalid free: toft_zone_free({p}): not a block of a private zone
// twin: frees blocks alone
// case: zone_frees_malloc
// A block of malloc's that is freed to a zone.
// stderr: toft: invalid free: toft_zone_free({p}): not a block of a private zone, but an address of malloc's
// twin: frees each where it came from
// case: zone_of_another
// A block that is freed to another zone than its own.
// stderr: toft: invalid free: toft_zone_free({p}): this 64-byte block is of zone "first", not of the one that was named
// twin: frees each to its own
// case: zone_free_after_destroy
// A block that is freed after its zone was destroyed, by free.
// stderr: toft: invalid free: free({p}): no private zone has this address any more, nor has anybody else
// twin: leaves it alone
// case: zone_handle_forged
// A handle with one bit changed: of each bit in turn, all are refused.
// stderr: toft: invalid zone: toft_zone_malloc({handle}): there never was a zone with this handle
// twin: uses the real one
// case: zone_handle_zero
// Zero, where a zone is expected.
// stderr: toft: invalid zone: toft_zone_malloc(0x0): zero is the handle of no zone
// twin: asks for nothing
#include "zones.h"

HELPER void zone_double_free(void)
{
    uint64_t zone = zone_named("twice");
    void *p = from_zone(zone, 60);
    announce("p", p);
    zone_free(zone, p);
    MISUSE(zone_free(zone, launder(p));)
}

HELPER void zone_double_free_late(void)
{
    uint64_t zone = zone_named("late");
    void *p = from_zone(zone, 48);
    announce("p", p);
    zone_free(zone, p);
    for (int i = 0; i < 1000; i++)
        zone_free(zone, from_zone(zone, 48));
    MISUSE(zone_free(zone, launder(p));)
}

HELPER void zone_double_free_large(void)
{
    uint64_t zone = zone_named("large");
    char *p = from_zone(zone, 1 << 20);
    announce("p", p);
    p[(1 << 20) - 1] = 1;
    zone_free(zone, p);
    MISUSE(zone_free(zone, launder(p));)
}

HELPER void zone_interior(void)
{
    uint64_t zone = zone_named("inside");
    char *p = from_zone(zone, 64);
    announce("p", p);
    announce("q", p + 16);
    MISUSE(zone_free(zone, launder(p + 16));)
    CORRECT(zone_free(zone, p);)
}

HELPER void zone_never_handed_out(void)
{
    uint64_t zone = zone_named("fresh");
    char *p = from_zone(zone, 64);
    announce("q", p + 640);
    MISUSE(zone_free(zone, launder(p + 640));)
    CORRECT(zone_free(zone, p);)
}

HELPER void zone_foreign(void)
{
    uint64_t zone = zone_named("own");
    char local[64];
    void *q = from_zone(zone, 64);
    announce("p", launder(local));
    MISUSE(zone_free(zone, launder(local));)
    zone_free(zone, q);
}

HELPER void zone_frees_malloc(void)
{
    uint64_t zone = zone_named("own");
    void *p = launder(malloc(64)), *q = from_zone(zone, 64);
    announce("p", p);
    MISUSE(zone_free(zone, p);)
    CORRECT(free(p);)
    zone_free(zone, q);
}

HELPER void zone_of_another(void)
{
    uint64_t first = zone_named("first"), second = zone_named("second");
    void *p = from_zone(first, 64), *q = from_zone(second, 64);
    announce("p", p);
    MISUSE(zone_free(second, launder(p));)
    CORRECT(zone_free(first, p);)
    zone_free(second, q);
}

HELPER void zone_free_after_destroy(void)
{
    uint64_t zone = zone_named("gone");
    void *p = from_zone(zone, 64);
    announce("p", p);
    CHECK(zone_destroy(zone) == 0);
    MISUSE(free(launder(p));)
}

HELPER void zone_handle_forged(void)
{
    uint64_t zone = zone_named("real");
    for (int i = 0; i < 100; i++)
        CHECK(zone_named("more"));
    CHECK(from_zone(zone, 8));
    uint64_t forged = zone ^ (uint64_t)1 << (getpid() & 63);
    announce("handle", (void *)forged);
    MISUSE(zone_malloc(forged, 8);)
}

HELPER void zone_handle_zero(void)
{
    CHECK(zone_named("any"));
    MISUSE(zone_malloc(0, 8);)
}

int main(void)
{
    CASE();
    return END;
}
