// Law 4, what threads have claimed: 64 slots for each thread, partition and class, a slab at most.
// It stays while the threads sleep, also after a purge, and goes when they have ended.
// flags: -pthread
// env: TOFT_PARTITIONS=1
// env: TOFT_DECAY=20
// env: TOFT_RECLAIM=calls
// timeout: 120
// libc: skip it has other bounds
// build: default reckons with the default build's slots
#include "bound.h"

enum { THREADS = 4, TRIES = 20, MOST = 256 };
static pthread_barrier_t start, stop;
static int enough;
static void *live[THREADS][CLASSES][2];

/* Everything of a slab is touched and free, and malloc has been asked twice: what was freed last, and what a new claim
 * begins with. */
static void claim(int thread, int class)
{
    void *block[MOST];
    size_t slot = slot_of_class(class), n = slots_of_slab(slot);
    for (size_t i = 0; i < n; i++) {
        CHECK(block[i] = malloc(slot));
        memset(block[i], 1, slot);
    }
    for (size_t i = 0; i < n; i++)
        free(block[i]);
    for (int i = 0; i < 2; i++)
        CHECK(live[thread][class][i] = malloc(slot));
}

static void *run(void *arg)
{
    int thread = (int)(intptr_t)arg;
    for (;;) {
        pthread_barrier_wait(&start);
        if (enough)
            return NULL;
        for (int class = 0; class < CLASSES; class++) {
            free(live[thread][class][0]);
            free(live[thread][class][1]);
            claim(thread, class);
        }
        pthread_barrier_wait(&stop);
    }
}

int main(void)
{
    pthread_barrier_init(&start, NULL, THREADS + 1);
    pthread_barrier_init(&stop, NULL, THREADS + 1);
    pthread_t thread[THREADS];
    bound_begin();
    for (intptr_t i = 0; i < THREADS; i++)
        thread[i] = spawn(run, (void *)i);
    /* Those of a thread that runs: a slab with live blocks, and one that took what the first had no room for. */
    struct bound b = {.threads = THREADS};
    size_t slabs = 0;
    for (int class = 0; class < CLASSES; class++) {
        size_t slot = slot_of_class(class);
        b.claims += THREADS * claim_of(slot);
        b.live += THREADS * 2 * pages_of_run(slot);
        slabs += THREADS * 2;
    }
    b.metadata = descriptors_of(slabs) + THREADS * heap_of(1);
    struct bound with = b;
    with.live = 0;
    size_t most = 0;
    for (int i = 0; i < TRIES && most < half_driven(with, b.claims); i++) {
        pthread_barrier_wait(&start);
        pthread_barrier_wait(&stop);
        /* Everything else of running threads goes. */
        purge_all();
        within("threads sleep", b);
        /* Whoever was kept waiting long enough in the middle has given back what it was about to claim. */
        most = grown();
    }
    if (most < half_driven(with, b.claims))
        bound_failed("threads sleep", "so this drives nothing: it takes", most,
                     half_driven(with, b.claims));
    enough = 1;
    pthread_barrier_wait(&start);
    for (int i = 0; i < THREADS; i++)
        join(thread[i]);
    b.claims = 0;
    purge_all();
    comes_within("threads have ended", b);
    return 0;
}
