/* Threads that have used and freed a slab of each class, and sleep: what they have claimed goes. A program says how, by
 * `give_back`, and what there is before. */
#ifndef TOFT_TESTS_CLAIMS_H
#define TOFT_TESTS_CLAIMS_H

#include "bound.h"

static size_t grown_with_claims(void);
static void give_back(const char *stage, struct bound b);

enum { THREADS = 4, ROUNDS = 3 };
static pthread_barrier_t start, stop;
static unsigned char *kept[THREADS][CLASSES][2];

/* Two blocks of each class are kept, what was freed last and the first of a new claim; the rest of a slab was used and is
 * free. */
static void use(int thread, int class)
{
    unsigned char *block[256];
    size_t slot = slot_of_class(class), n = slots_of_slab(slot);
    for (size_t i = 0; i < n; i++) {
        CHECK(block[i] = malloc(slot));
        memset(block[i], 1, slot);
    }
    for (size_t i = 0; i < n; i++)
        free(block[i]);
    for (int i = 0; i < 2; i++) {
        CHECK(kept[thread][class][i] = malloc(slot));
        fill(kept[thread][class][i], slot, (uint64_t)(thread + class + i));
    }
}

static void *run(void *arg)
{
    int thread = (int)(intptr_t)arg;
    for (int round = 0; round < ROUNDS; round++) {
        for (int class = 0; class < CLASSES; class++)
            use(thread, class);
        pthread_barrier_wait(&start);
        pthread_barrier_wait(&stop);
        for (int i = 0; i < 2 * CLASSES; i++) {
            unsigned char *block = kept[thread][i / 2][i % 2];
            CHECK(filled(block, slot_of_class(i / 2), (uint64_t)(thread + i / 2 + i % 2)));
            free(block);
        }
    }
    return NULL;
}

int main(void)
{
    pthread_barrier_init(&start, NULL, THREADS + 1);
    pthread_barrier_init(&stop, NULL, THREADS + 1);
    pthread_t thread[THREADS];
    bound_begin();
    for (intptr_t i = 0; i < THREADS; i++)
        thread[i] = spawn(run, (void *)i);
    struct bound b = {.threads = THREADS};
    for (int class = 0; class < CLASSES; class++)
        b.live += THREADS * 2 * pages_of_run(slot_of_class(class));
    b.metadata = descriptors_of(THREADS * CLASSES * 2) + THREADS * heap_of(1);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&start);
        size_t with = grown_with_claims();
        give_back("threads sleep", b);
        /* It was there to go. */
        CHECK(with > grown() + 4 * MIB);
        pthread_barrier_wait(&stop);
    }
    for (int i = 0; i < THREADS; i++)
        join(thread[i]);
    return 0;
}

#endif
