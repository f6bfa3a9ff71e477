// Threads come and go while their blocks are freed by others, by later threads, or for a while not
// at all; contents stay right and memory stays bounded.
// flags: -pthread
// timeout: 60
// promise: 25 30
#include "common.h"

enum { SHELF = 4096 };
struct item {
    size_t size;
    uint64_t tag;
};
static struct item *shelf[SHELF];

static void swap_in(struct rng *r, struct item *p)
{
    struct item *old = __atomic_exchange_n(&shelf[rng_below(r, SHELF)], p, __ATOMIC_ACQ_REL);
    if (old) {
        CHECK(filled(old + 1, old->size, old->tag));
        free(old);
    }
}

static void *visitor(void *arg)
{
    struct rng r = {(uint64_t)(uintptr_t)arg * 2654435761u + 1};
    for (int k = 0; k < 2000; k++) {
        size_t size = rng_below(&r, k % 100 ? 500 : 40000);
        struct item *p = malloc(sizeof *p + size);
        CHECK(p);
        p->size = size;
        p->tag = rng_next(&r);
        fill(p + 1, size, p->tag);
        swap_in(&r, p);
    }
    return NULL;
}

int main(void)
{
    double end = now() + 6;
    size_t rss = 0, n = 1;
    pthread_t t[8];
    for (int i = 0; i < 8; i++)
        t[i] = spawn(visitor, (void *)n++);
    while (now() < end || n <= 400) {
        size_t i = n % 8;
        join(t[i]);
        t[i] = spawn(visitor, (void *)n++);
        if (n == 200)
            rss = rss_bytes();
    }
    for (int i = 0; i < 8; i++)
        join(t[i]);
    announce_number("threads", n);
    CHECK(n > 200);
    CHECK(rss_bytes() < rss + rss / 2 + (16 << 20));
    for (int i = 0; i < SHELF; i++)
        free(shelf[i]);
    return 0;
}
