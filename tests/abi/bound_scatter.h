/* Memory that is free and touched, in slabs of threads that sleep, freed by themselves and by another; and large
 * blocks. Of each kind some stay. */
#ifndef TOFT_TESTS_BOUND_SCATTER_H
#define TOFT_TESTS_BOUND_SCATTER_H

#include "bound.h"

enum { THREADS = 4, N = 16384, EACH = 64, LARGE = 16, LARGE_SIZE = 1 << 20 };
static const size_t size_of_thread[THREADS] = {256, 512, 1024, 2048};
static char *block[THREADS][N], *large[2 * LARGE];
static pthread_barrier_t go_on;

/* Blocks that stay: one of so many. */
static int stays(int i)
{
    return i % EACH == 0;
}

static void *fill_and_sleep(void *arg)
{
    int thread = (int)(intptr_t)arg;
    for (int i = 0; i < N; i++) {
        CHECK(block[thread][i] = malloc(size_of_thread[thread]));
        memset(block[thread][i], 1, size_of_thread[thread]);
    }
    pthread_barrier_wait(&go_on);
    for (int i = 0; i < N; i++)
        if (!stays(i) && i % 2)
            free(block[thread][i]);
    pthread_barrier_wait(&go_on);
    pthread_barrier_wait(&go_on);
    return NULL;
}

/* What is left to be resident when all that is free has gone; and what may be until then. */
static struct bound all_gone, not_yet;
static pthread_t sleeper[THREADS];

HELPER void scatter(void)
{
    memset(block, 0, sizeof block);
    memset(large, 0, sizeof large);
    pthread_barrier_init(&go_on, NULL, THREADS + 1);
    bound_begin();
    struct bound b = {.threads = THREADS};
    size_t slabs = 0, used = 0;
    for (int i = 0; i < THREADS; i++) {
        size_t slot = size_of_thread[i];
        /* Slots of these sizes lie on one page each. */
        b.live += N / EACH * page_size();
        b.claims += claim_of(slot);
        slabs += slabs_for(N, slot);
        used += slab_bytes_for(N, slot);
    }
    used += LARGE * LARGE_SIZE;
    b.live += LARGE * LARGE_SIZE;
    b.metadata = descriptors_of(slabs) + (THREADS + 1) * heap_of(1) + whole_pages(2 * LARGE * LARGE_SIZE / 1024);
    all_gone = b;
    /* All that was ever in use at once. */
    b.dirty = used - b.live + room_over(used);
    b.kept = LARGE * LARGE_SIZE;
    not_yet = b;
    for (intptr_t i = 0; i < THREADS; i++)
        sleeper[i] = spawn(fill_and_sleep, (void *)i);
    for (int i = 0; i < 2 * LARGE; i++) {
        CHECK(large[i] = malloc(LARGE_SIZE));
        memset(large[i], 1, LARGE_SIZE);
    }
    pthread_barrier_wait(&go_on);
    pthread_barrier_wait(&go_on);
    for (int thread = 0; thread < THREADS; thread++)
        for (int i = 0; i < N; i++)
            if (!stays(i) && i % 2 == 0)
                free(block[thread][i]);
    for (int i = 0; i < LARGE; i++)
        free(large[i]);
}

HELPER void wake_up(void)
{
    pthread_barrier_wait(&go_on);
    for (int i = 0; i < THREADS; i++)
        join(sleeper[i]);
}

#endif
