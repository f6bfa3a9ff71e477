// The counters of thread.allocated and thread.deallocated are those of the calling thread. They
// count a block of another thread when this one frees it.
// libc: skip it has no such calls
// musl: skip weak names take nothing out of an archive
#include "jemalloc.h"
#include <pthread.h>

enum { THREADS = 40, ROUNDS = 12, STEPS = 2000, KEPT = 200, PASSED = 50 };

static void *passed[THREADS][PASSED];
static pthread_barrier_t turn;
/* A secure build counts whole slots, and those of other threads when they leave a quarantine. */
static int exact;
/* A block that stays as it is counts as freed and allocated in jemalloc. */
static int stays_counted;

static uint64_t random_of(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Rarely used bins take their slots from shared heaps, and large blocks have none. */
static size_t some_size(uint64_t *state)
{
    switch (random_of(state) % 64) {
    case 0:
        return 200000 + random_of(state) % 1000000;
    case 1:
    case 2:
        return 1 + random_of(state) % 30000;
    default:
        return 1 + random_of(state) % 300;
    }
}

/* What a thread has done since it began, in usable bytes, and what its counters say of that. */
struct ledger {
    uint64_t done[2], before[2];
    uint64_t *words[2];
};

static void *taken(struct ledger *of, void *block)
{
    CHECK(block);
    of->done[0] += malloc_usable_size(block);
    return block;
}

static void given(struct ledger *of, void *block)
{
    of->done[1] += malloc_usable_size(block);
    free(block);
}

static void compare(struct ledger *of)
{
    uint64_t now[] = {value_of("thread.allocated", 8), value_of("thread.deallocated", 8)};
    for (int i = 0; i < 2; i++) {
        uint64_t counted = now[i] - of->before[i];
        CHECK(exact ? counted == of->done[i] : i == 1 || counted >= of->done[i]);
        CHECK(*of->words[i] == now[i]);
    }
}

static void *worker(void *argument)
{
    size_t self = (size_t)argument;
    uint64_t state = self;
    void *kept[KEPT] = {0};
    struct ledger ledger = {
        .before = {value_of("thread.allocated", 8), value_of("thread.deallocated", 8)},
        .words = {(uint64_t *)value_of("thread.allocatedp", 8),
                  (uint64_t *)value_of("thread.deallocatedp", 8)},
    };
    for (int round = 0; round < ROUNDS; round++) {
        for (int step = 0; step < STEPS / (self < 4 ? 1 : 20); step++) {
            size_t at = random_of(&state) % KEPT, size = some_size(&state);
            if (!kept[at]) {
                kept[at] = taken(&ledger, random_of(&state) % 4 ? malloc(size) : calloc(1, size));
            } else if (random_of(&state) % 4) {
                given(&ledger, kept[at]);
                kept[at] = NULL;
            } else {
                size_t usable = malloc_usable_size(kept[at]);
                void *block = realloc(kept[at], size);
                CHECK(block);
                if (stays_counted || block != kept[at] || malloc_usable_size(block) != usable) {
                    ledger.done[1] += usable;
                    taken(&ledger, block);
                }
                kept[at] = block;
            }
        }
        for (int i = 0; i < PASSED; i++)
            passed[self][i] = taken(&ledger, malloc(some_size(&state)));
        compare(&ledger);
        pthread_barrier_wait(&turn);
        /* Each thread frees the blocks of its neighbour. */
        for (int i = 0; i < PASSED; i++)
            given(&ledger, passed[(self + 1) % THREADS][i]);
        compare(&ledger);
        pthread_barrier_wait(&turn);
    }
    for (int i = 0; i < KEPT; i++)
        if (kept[i])
            given(&ledger, kept[i]);
    compare(&ledger);
    return NULL;
}

int main(void)
{
    void *block = malloc(17);
    exact = malloc_usable_size(block) != 17;
    free(block);
    stays_counted = !on_toft();
    /* The second group of threads uses what the first has left. */
    for (int group = 0; group < 2; group++) {
        pthread_t threads[THREADS];
        CHECK(pthread_barrier_init(&turn, NULL, THREADS) == 0);
        for (size_t i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, worker, (void *)i) == 0);
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
    }
    return 0;
}
