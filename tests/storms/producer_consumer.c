// Four pairs of threads: one only allocates, the other only frees, through a ring; memory must not
// grow, because what the consumer frees is the producer's again.
// flags: -pthread
// timeout: 60
// promise: 25 30
#include "common.h"

enum { PAIRS = 4, RING = 1024 };
static struct ring {
    void *slot[RING];
    char pad[64];
} ring[PAIRS];
static volatile int stop;

static void *producer(void *arg)
{
    struct ring *q = arg;
    struct rng r = {(uint64_t)(uintptr_t)arg | 1};
    for (size_t at = 0; !stop; at = (at + 1) % RING) {
        while (__atomic_load_n(&q->slot[at], __ATOMIC_ACQUIRE) && !stop)
            sched_yield();
        if (stop)
            break;
        void *p = malloc(16 + rng_below(&r, 2000));
        CHECK(p);
        memset(p, 1, 16);
        __atomic_store_n(&q->slot[at], p, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void *consumer(void *arg)
{
    struct ring *q = arg;
    for (size_t at = 0;; at = (at + 1) % RING) {
        void *p;
        while (!(p = __atomic_load_n(&q->slot[at], __ATOMIC_ACQUIRE))) {
            if (stop)
                return NULL;
            sched_yield();
        }
        __atomic_store_n(&q->slot[at], NULL, __ATOMIC_RELEASE);
        free(p);
    }
}

int main(void)
{
    pthread_t t[2 * PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        t[2 * i] = spawn(producer, &ring[i]);
        t[2 * i + 1] = spawn(consumer, &ring[i]);
    }
    sleep(1);
    size_t rss = rss_bytes();
    sleep(4);
    CHECK(rss_bytes() < rss + (16 << 20));
    CHECK(rss_bytes() < 128 << 20);
    stop = 1;
    for (int i = 0; i < 2 * PAIRS; i++)
        join(t[i]);
    return 0;
}
