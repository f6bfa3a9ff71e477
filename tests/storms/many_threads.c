// Many threads that keep a few blocks each, of many sizes and call sites, share slabs: memory does
// not grow with threads times sizes times sites. What they leave behind comes back.
// flags: -pthread
// timeout: 300
// promise: 25 30
#include "common.h"

enum { THREADS = 200, KEPT = 150, ROUNDS = 4, SITES = 16, MIB = 1 << 20 };

#define SITE(n)                                                                                    \
    __attribute__((noinline)) static void *site##n(size_t size)                                    \
    {                                                                                              \
        void *block = malloc(size);                                                                \
        __asm__ volatile("# site " #n);                                                            \
        return block;                                                                              \
    }
SITE(0) SITE(1) SITE(2) SITE(3) SITE(4) SITE(5) SITE(6) SITE(7)
SITE(8) SITE(9) SITE(10) SITE(11) SITE(12) SITE(13) SITE(14) SITE(15)
static void *(*const sites[SITES])(size_t) = {site0, site1, site2,  site3,  site4,  site5,
                                              site6, site7, site8,  site9,  site10, site11,
                                              site12, site13, site14, site15};

struct kept {
    void *block;
    size_t size;
    uint64_t tag;
};

static pthread_barrier_t filled_all, freed_all;

static void *worker(void *arg)
{
    struct rng r = {(uint64_t)(uintptr_t)arg * 2654435761u + 1};
    struct kept kept[KEPT] = {0};
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < KEPT; i++) {
            struct kept *k = &kept[i];
            if (k->block) {
                CHECK(filled(k->block, k->size, k->tag));
                free(k->block);
            }
            k->size = 16 + rng_below(&r, 1000);
            k->block = sites[rng_below(&r, SITES)](k->size);
            CHECK(k->block);
            k->tag = rng_next(&r);
            fill(k->block, k->size, k->tag);
        }
    pthread_barrier_wait(&filled_all);
    pthread_barrier_wait(&freed_all);
    for (int i = 0; i < KEPT; i++) {
        CHECK(filled(kept[i].block, kept[i].size, kept[i].tag));
        free(kept[i].block);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&filled_all, NULL, THREADS + 1);
    pthread_barrier_init(&freed_all, NULL, THREADS + 1);
    size_t before = rss_bytes();
    for (size_t i = 0; i < THREADS; i++)
        threads[i] = spawn(worker, (void *)(i + 1));
    pthread_barrier_wait(&filled_all);
    // 15 MiB are live, and each thread's stack takes three or four pages. A slab for each thread,
    // site and class takes 110 MiB, and more in the secure build. How many threads meet in a
    // shared heap, and then need a separate slab, depends on how busy the machine is.
    size_t alive = rss_bytes() - before;
    announce_number("MiB while all threads live", alive / MIB);
    CHECK(alive < 80 * MIB);
    pthread_barrier_wait(&freed_all);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    // What shared heaps have claimed stays: in the secure build some 2 MiB.
    size_t left = alive, most = alive / 4 + 7 * MIB;
    for (int tries = 0; tries < 600 && left > most; tries++) {
        usleep(100 * 1000);
        left = rss_bytes() - before;
    }
    announce_number("MiB when all have exited", left / MIB);
    CHECK(left <= most);
    return 0;
}
