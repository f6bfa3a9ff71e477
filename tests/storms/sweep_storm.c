// Threads allocate, fill, verify, free and pass blocks on, while others give back all memory that
// is free, as fast as they can. Threads end and are born. Children are forked in the middle of
// sweeps, verify what they have, and grow until they have their own reclaimer. calloc returns
// zeros.
// flags: -pthread -O2
// env: TOFT_PARTITIONS=4
// run: 3 0
// run: 3 1
// run: 3 100
// run: 3 1 pinned
// timeout: 100
// libc: skip asks for toft_purge
// promise: 6 23 24
// aarch64: skip takes many minutes under qemu
#include "common.h"
#include "reclaimer.h"
#include <sched.h>

enum { THREADS = 3, POOL = 3000, OWN = 160 };
struct item {
    uint32_t size, tag;
};
static struct item *volatile pool[POOL];
static volatile int stop;
static size_t operations, purges, forks;

static size_t some_size(struct rng *r)
{
    static const size_t usual[] = {40, 500, 1000, 1990, 2900, 4900, 20000};
    return rng_below(r, 4) ? usual[rng_below(r, 7)] : rng_below(r, rng_below(r, 50) ? 3000 : 200000);
}

static struct item *make(struct rng *r)
{
    size_t size = some_size(r);
    struct item *p = rng_below(r, 3) ? malloc(sizeof *p + size) : calloc(1, sizeof *p + size);
    CHECK(p);
    p->size = (uint32_t)size;
    p->tag = (uint32_t)rng_next(r);
    fill(p + 1, size, p->tag);
    return p;
}

/* Zero all over, or the page that went has come back wrong. */
static struct item *make_zero(struct rng *r)
{
    size_t size = some_size(r);
    struct item *p = calloc(1, sizeof *p + size);
    CHECK(p);
    const unsigned char *c = (const unsigned char *)p;
    for (size_t i = 0; i < sizeof *p + size; i++)
        CHECK(c[i] == 0);
    p->size = (uint32_t)size;
    p->tag = (uint32_t)rng_next(r);
    fill(p + 1, size, p->tag);
    return p;
}

static void drop(struct item *p)
{
    if (!p)
        return;
    CHECK(filled(p + 1, p->size, p->tag));
    free(p);
}

/* A life: bursts, so that much is free in between, and a little that stays. */
static void *life(void *arg)
{
    struct rng r = {(size_t)arg * 977 + 1};
    struct item *own[OWN] = {NULL};
    size_t n = 0;
    for (int round = 0; round < 60 && !stop; round++) {
        for (int i = 0; i < OWN; i++, n++)
            if (!own[i])
                own[i] = rng_below(&r, 2) ? make(&r) : make_zero(&r);
        for (int i = 0; i < OWN; i++) {
            struct item *p = own[i];
            if (i % 16 == round % 16)
                continue;
            own[i] = NULL;
            if (i % 5 == 0)
                p = __atomic_exchange_n(&pool[rng_below(&r, POOL)], p, __ATOMIC_ACQ_REL);
            drop(p);
        }
        if (round % 20 == 19)
            usleep(2000);
    }
    for (int i = 0; i < OWN; i++)
        drop(own[i]);
    __atomic_fetch_add(&operations, n, __ATOMIC_RELAXED);
    return NULL;
}

static void *lives(void *arg)
{
    for (size_t k = 0; !stop; k++)
        join(spawn(life, (void *)((size_t)arg + 10 * k)));
    return NULL;
}

static void *sweeper(void *arg)
{
    size_t (*purge)(void) = (size_t(*)(void))symbol("toft_purge");
    CHECK(purge);
    while (!stop) {
        if (arg)
            malloc_trim(0);
        else
            purge();
        __atomic_fetch_add(&purges, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void child(size_t number)
{
    /* What the child has is what the pool had at the moment of the fork. */
    for (int i = 0; i < POOL; i++) {
        struct item *p = pool[i];
        if (p && i % 3) {
            drop(p);
            pool[i] = NULL;
        } else if (p) {
            CHECK(filled(p + 1, p->size, p->tag));
        }
    }
    stop = 0;
    life((void *)(number + 5));
    enum { BIG = 300 };
    static struct item *block[BIG][100];
    struct rng r = {number + 3};
    double end = now() + 120;
    for (int i = 0; i < BIG && !has_reclaimer(); i++)
        for (int k = 0; k < 100; k++)
            block[i][k] = make(&r);
    int found = number % 4 != 0;
    while (!found && now() < end) {
        life((void *)number);
        found = has_reclaimer();
    }
    CHECK(found);
    size_t (*purge)(void) = (size_t(*)(void))symbol("toft_purge");
    purge();
    for (int i = 0; i < BIG; i++)
        for (int k = 0; k < 100; k++)
            drop(block[i][k]);
    purge();
    _exit(0);
}

int main(int argc, char **argv)
{
    CHECK(argc > 2);
    int seconds = atoi(argv[1]);
    anew_with(argv, "TOFT_DECAY", argv[2]);
    if (argc > 3) {
        /* All threads on one processor: each is stopped wherever it is. */
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    }
    pthread_t t[THREADS + 2];
    for (size_t i = 0; i < THREADS; i++)
        t[i] = spawn(lives, (void *)i);
    for (size_t i = 0; i < 2; i++)
        t[THREADS + i] = spawn(sweeper, (void *)i);
    double end = now() + seconds;
    while (now() < end || operations <= 1000 || purges <= 50 || forks == 0) {
        usleep(20000);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            child(forks);
        reap(pid);
        forks++;
    }
    stop = 1;
    for (int i = 0; i < THREADS + 2; i++)
        join(t[i]);
    for (int i = 0; i < POOL; i++)
        drop(pool[i]);
    announce_number("operations", operations);
    announce_number("purges", purges);
    announce_number("forks", forks);
    CHECK(operations > 1000 && purges > 50 && forks > 0);
    return 0;
}
