// Threads make, use and destroy zones without pause: their own zones, and shared ones in which each
// frees what others have allocated; and malloc goes on meanwhile. Contents stay whole, figures
// agree at the end.
// flags: -pthread
// libc: skip it has no zones
// promise: 6
#include "../zones.h"

enum { THREADS = 4, SHARED = 3, SHELF = 500, ROUNDS = 20000 };
static uint64_t shared[SHARED];
static void *volatile shelf[SHARED][SHELF];

static void *worker(void *arg)
{
    struct rng r = {(size_t)arg + 7};
    for (int i = 0; i < ROUNDS; i++) {
        size_t z = rng_below(&r, SHARED), s = rng_below(&r, SHELF);
        size_t *old = __atomic_exchange_n(&shelf[z][s], NULL, __ATOMIC_ACQ_REL);
        if (old) {
            CHECK(filled(old + 1, *old, *old));
            zone_free(shared[z], old);
        }
        size_t n = rng_below(&r, 100) ? rng_below(&r, 2000) : rng_below(&r, 60000);
        size_t *new = zone_malloc(shared[z], n + sizeof *new);
        CHECK(new);
        *new = n;
        fill(new + 1, n, n);
        old = __atomic_exchange_n(&shelf[z][s], new, __ATOMIC_ACQ_REL);
        if (old) {
            CHECK(filled(old + 1, *old, *old));
            zone_free(shared[z], old);
        }
        if (i % 50 == 0) {
            uint64_t own = zone_named("own");
            for (int k = 0; k < 30; k++)
                fill(from_zone(own, (size_t)k * 40), (size_t)k * 40, 1);
            CHECK(zone_verify(own) == 0);
            CHECK(zone_destroy(own) == 0);
        }
        if (i % 500 == 0)
            CHECK(zone_verify(shared[z]) == 0);
        free(malloc(n));
    }
    return NULL;
}

int main(void)
{
    for (int z = 0; z < SHARED; z++)
        shared[z] = zone_named("shared");
    pthread_t t[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        t[i] = spawn(worker, (void *)i);
    for (int i = 0; i < THREADS; i++)
        join(t[i]);
    for (int z = 0; z < SHARED; z++) {
        uint64_t blocks = 0;
        for (int s = 0; s < SHELF; s++)
            blocks += shelf[z][s] != NULL;
        CHECK(stats_of(shared[z]).live_blocks == blocks);
        CHECK(zone_verify(shared[z]) == 0);
        CHECK(zone_destroy(shared[z]) == 0);
    }
    return 0;
}
