// Eight threads, 16 rounds of 2048 blocks of random size and alignment, freed by the thread that
// took them, or by the next one, content checked.
// flags: -pthread
// timeout: 120
// promise: 21 25
// case: aligned_random_thread -DNEXT=0
// case: aligned_random_cross -DNEXT=1
#include "common.h"

enum { THREADS = 8, BLOCKS = 2048, ROUNDS = 16 };
static struct {
    unsigned char *p;
    size_t size;
} block[THREADS][BLOCKS];
static pthread_barrier_t barrier;

static void *worker(void *arg)
{
    size_t t = (size_t)arg, from = (t + NEXT) % THREADS;
    struct rng r = {t + 1};
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            size_t alignment = (size_t)1 << rng_below(&r, 17), size = 0;
            /* Large ones are rare, as they are in programs. */
            size = (size_t)1 << rng_below(&r, i % 32 ? 11 : 17);
            size = rng_below(&r, size + 1);
            unsigned char *p = aligned_alloc(alignment, size);
            CHECK(p);
            CHECK((uintptr_t)p % alignment == 0);
            fill(p, size < 256 ? size : 256, t * 7 + (size_t)i);
            block[t][i].p = p;
            block[t][i].size = size;
        }
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < BLOCKS; i++) {
            size_t size = block[from][i].size;
            CHECK(filled(block[from][i].p, size < 256 ? size : 256, from * 7 + (size_t)i));
            free(block[from][i].p);
        }
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void)
{
    pthread_t thread[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (size_t t = 0; t < THREADS; t++)
        thread[t] = spawn(worker, (void *)t);
    for (size_t t = 0; t < THREADS; t++)
        join(thread[t]);
    return 0;
}
