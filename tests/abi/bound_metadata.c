// Law 4, what is known about blocks: descriptors of slabs and of large blocks, and heaps. They stay
// when all blocks have gone; threads that come later use the heaps of those that have ended.
// build: default its sum knows no quarantine, and descriptors of half the size
// flags: -pthread
// env: TOFT_RECLAIM=off
// env: TOFT_PARTITIONS=64
// libc: skip it has other bounds
#include "bound.h"

enum { PARTITIONS = 64, TINY = 1 << 20, LARGE = 3000, THREADS = 48 };
static void *block[TINY];
static pthread_barrier_t all_there;

/* Call sites enough that nearly every page of a heap has a bin that is used: four partitions share one. */
#define SITE(n) NOINLINE void site_##n(void) { free(launder(malloc(1 + (n) % 16))); NO_TAIL_CALL(); }
#define SITES(x) SITE(x##0) SITE(x##1) SITE(x##2) SITE(x##3) SITE(x##4) SITE(x##5) SITE(x##6) SITE(x##7)
#define CALL(n) site_##n();
#define CALLS(x) CALL(x##0) CALL(x##1) CALL(x##2) CALL(x##3) CALL(x##4) CALL(x##5) CALL(x##6) CALL(x##7)
SITES(1) SITES(2) SITES(3) SITES(4) SITES(5) SITES(6) SITES(7) SITES(8) SITES(9)
SITES(11) SITES(12) SITES(13) SITES(14) SITES(15) SITES(16) SITES(17) SITES(18)

/* More slots than a bin draws from a shared heap in a second before it gets a separate slab. */
enum { OFTEN = 40 };

static void *touch_bins(void *arg)
{
    for (int i = 0; i < OFTEN; i++) {
    CALLS(1) CALLS(2) CALLS(3) CALLS(4) CALLS(5) CALLS(6) CALLS(7) CALLS(8) CALLS(9)
    CALLS(11) CALLS(12) CALLS(13) CALLS(14) CALLS(15) CALLS(16) CALLS(17) CALLS(18)
    }
    if (arg)
        pthread_barrier_wait(&all_there);
    return NULL;
}

int main(void)
{
    memset(block, 0, sizeof block);
    bound_begin();
    /* 1. Of slabs. */
    for (int i = 0; i < TINY; i++) {
        CHECK(block[i] = malloc(16));
        *(char *)block[i] = 1;
    }
    struct bound b = {
        .live = TINY * (size_t)16,
        .metadata = descriptors_of(slabs_for(TINY, 16)) + heap_of(PARTITIONS),
    };
    within("tiny blocks", b);
    for (int i = 0; i < TINY; i++)
        free(block[i]);
    purge_all();
    b.live = 0;
    within("tiny blocks, freed", b);
    driven("tiny blocks, freed", b, b.metadata);
    size_t before = b.metadata;
    /* 2. Of large blocks: 64 bytes for each 64 KiB of extents of nine units. */
    for (int i = 0; i < LARGE; i++) {
        CHECK(block[i] = malloc(256 * KIB));
        *(char *)block[i] = 1;
    }
    b.live = LARGE * page_size();
    b.metadata = before + pages_of_run(LARGE * 9 * 64);
    within("large blocks", b);
    for (int i = 0; i < LARGE; i++)
        free(block[i]);
    purge_all();
    b.live = 0;
    within("large blocks, freed", b);
    struct bound of_large = b;
    driven("large blocks, freed", of_large, b.metadata - before);
    /* 3. Of threads. */
    pthread_barrier_init(&all_there, NULL, THREADS + 1);
    pthread_t thread[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        thread[i] = spawn(touch_bins, (void *)1);
    pthread_barrier_wait(&all_there);
    for (int i = 0; i < THREADS; i++)
        join(thread[i]);
    purge_all();
    before = b.metadata;
    b.threads = THREADS;
    b.metadata += THREADS * heap_of(PARTITIONS) + THREADS * (size_t)PARTITIONS * 512 + PARTITIONS * 2 * page_size();
    within("threads", b);
    struct bound least = b;
    least.threads = 0;
    driven("threads", least, THREADS * heap_of(PARTITIONS));
    /* 4. Later threads, one at a time: nothing more. */
    for (int i = 0; i < 4 * THREADS; i++)
        join(spawn(touch_bins, NULL));
    purge_all();
    within("later threads", b);
    return 0;
}
