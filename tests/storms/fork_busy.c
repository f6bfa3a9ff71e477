// A process whose threads allocate without pause forks again and again; each child allocates and
// frees heavily, frees blocks that belong to threads it does not have, and starts threads.
// flags: -pthread
// timeout: 60
// promise: 23
// aarch64: skip qemu hangs where a process with threads forks
#include "common.h"

#ifndef SECONDS
#define SECONDS 5
#endif

enum { THREADS = 4, N = 2000 };
static void *volatile shelf[THREADS][N];
static volatile int stop;

static size_t some_size(struct rng *r)
{
    /* Each has room for its number. */
    return sizeof(size_t) + rng_below(r, rng_below(r, 40) ? 800 : rng_below(r, 10) ? 20000 : 400000);
}

static void *worker(void *arg)
{
    size_t t = (size_t)arg;
    struct rng r = {t + 77};
    while (!stop) {
        size_t i = rng_below(&r, N);
        free(__atomic_exchange_n(&shelf[t][i], NULL, __ATOMIC_ACQ_REL));
        void *p = malloc(some_size(&r));
        CHECK(p);
        *(size_t *)p = i;
        free(__atomic_exchange_n(&shelf[t][i], p, __ATOMIC_ACQ_REL));
    }
    return NULL;
}

static void *churn(void *arg)
{
    struct rng r = {(size_t)arg + 1};
    void *block[200] = {NULL};
    for (int k = 0; k < 5000; k++) {
        size_t i = rng_below(&r, 200);
        free(block[i]);
        CHECK((block[i] = malloc(some_size(&r))));
    }
    for (int i = 0; i < 200; i++)
        free(block[i]);
    return NULL;
}

static void child(void)
{
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < N; i++) {
            void *p = shelf[t][i];
            if (p) {
                CHECK(*(size_t *)p == (size_t)i);
                free(p);
            }
        }
    churn(NULL);
    pthread_t t[3];
    for (size_t i = 0; i < 3; i++)
        t[i] = spawn(churn, (void *)i);
    for (int i = 0; i < 3; i++)
        join(t[i]);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        churn(NULL);
        _exit(0);
    }
    reap(pid);
    _exit(0);
}

int main(void)
{
    pthread_t t[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        t[i] = spawn(worker, (void *)i);
    double end = now() + SECONDS;
    int children = 0;
    while (now() < end || children <= 5) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            child();
        reap(pid);
        children++;
    }
    stop = 1;
    for (int i = 0; i < THREADS; i++)
        join(t[i]);
    announce_number("children", (size_t)children);
    return 0;
}
