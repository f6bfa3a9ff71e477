// A process whose threads use, make and destroy zones without pause forks again and again. In each
// child every zone can be used, verified and destroyed, whatever its threads were in the middle of.
// Blocks that were live are whole.
// flags: -pthread
// timeout: 60
// libc: skip it has no zones
// promise: 23
// aarch64: skip qemu hangs where a process with threads forks
#include "../zones.h"

#ifndef SECONDS
#define SECONDS 5
#endif

enum { THREADS = 3, ZONES_ = 4, KEPT = 200 };
static uint64_t zones[ZONES_];
static void *kept[ZONES_][KEPT];
static volatile int stop;

static void *worker(void *arg)
{
    struct rng r = {(size_t)arg + 99};
    void *block[300] = {NULL};
    uint64_t of[300] = {0};
    while (!stop) {
        size_t i = rng_below(&r, 300);
        if (block[i])
            zone_free(of[i], block[i]);
        of[i] = zones[rng_below(&r, ZONES_)];
        block[i] = from_zone(of[i], rng_below(&r, rng_below(&r, 20) ? 500 : 90000));
        if (rng_below(&r, 20) == 0) {
            uint64_t own = zone_named("brief");
            for (int k = 0; k < 8; k++)
                CHECK(from_zone(own, 5000));
            CHECK(zone_destroy(own) == 0);
        }
    }
    for (int i = 0; i < 300; i++)
        if (block[i])
            zone_free(of[i], block[i]);
    return NULL;
}

static void *use(void *arg)
{
    struct rng r = {(size_t)arg + 5};
    for (int i = 0; i < 300; i++) {
        uint64_t zone = zones[rng_below(&r, ZONES_)];
        size_t n = rng_below(&r, 30000);
        char *p = from_zone(zone, n);
        fill(p, n, 3);
        CHECK(filled(p, n, 3));
        zone_free(zone, p);
    }
    return NULL;
}

static void child(void)
{
    for (int z = 0; z < ZONES_; z++) {
        CHECK(zone_verify(zones[z]) == 0);
        for (int i = 0; i < KEPT; i++)
            CHECK(filled(kept[z][i], (size_t)i * 10, (uint64_t)i));
    }
    use(NULL);
    pthread_t t[2];
    for (size_t i = 0; i < 2; i++)
        t[i] = spawn(use, (void *)i);
    for (int i = 0; i < 2; i++)
        join(t[i]);
    for (int i = 0; i < 50; i++) {
        uint64_t own = zone_named("child");
        CHECK(from_zone(own, 100) && zone_verify(own) == 0 && zone_destroy(own) == 0);
    }
    for (int z = 0; z < ZONES_; z++) {
        CHECK(zone_verify(zones[z]) == 0);
        CHECK(zone_destroy(zones[z]) == 0);
    }
    _exit(0);
}

int main(void)
{
    for (int z = 0; z < ZONES_; z++) {
        zones[z] = zone_named("lasting");
        for (int i = 0; i < KEPT; i++)
            fill(kept[z][i] = from_zone(zones[z], (size_t)i * 10), (size_t)i * 10, (uint64_t)i);
    }
    pthread_t t[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        t[i] = spawn(worker, (void *)i);
    double end = now() + SECONDS;
    int forks = 0;
    for (; now() < end || forks <= 5; forks++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            child();
        reap(pid);
    }
    stop = 1;
    for (int i = 0; i < THREADS; i++)
        join(t[i]);
    CHECK(forks > 5);
    for (int z = 0; z < ZONES_; z++) {
        CHECK(stats_of(zones[z]).live_blocks == KEPT);
        CHECK(zone_verify(zones[z]) == 0);
    }
    return 0;
}
