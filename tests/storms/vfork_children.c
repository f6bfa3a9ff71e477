// Children by vfork (which share all memory with their parent, and allocate in it) and by _Fork
// (for which no fork handler runs), from a process with busy threads.
// flags: -pthread
// timeout: 40
// libc: skip glibc's child of _Fork may find its own locks taken
// promise: 24
#include "common.h"

static volatile int stop;

static void churn(size_t seed)
{
    struct rng r = {seed + 1};
    void *block[50] = {NULL};
    for (int k = 0; k < 500; k++) {
        size_t i = rng_below(&r, 50);
        free(block[i]);
        CHECK((block[i] = malloc(rng_below(&r, k % 50 ? 2000 : 300000))));
    }
    for (int i = 0; i < 50; i++)
        free(block[i]);
}

static void *worker(void *arg)
{
    while (!stop)
        churn((size_t)arg);
    return NULL;
}

static void by_vfork(void)
{
    void *from_parent = malloc(700);
    void *volatile from_child = NULL;
    pid_t pid = vfork();
    CHECK(pid >= 0);
    if (pid == 0) {
        free(from_parent);
        from_child = malloc(900);
        churn(5);
        _exit(from_child ? 0 : 1);
    }
    reap(pid);
    free(from_child);
}

static void by_Fork(void)
{
    pid_t pid = _Fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        churn(9);
        _exit(0);
    }
    reap(pid);
}

int main(void)
{
    pthread_t t[3];
    for (size_t i = 0; i < 3; i++)
        t[i] = spawn(worker, (void *)i);
    double end = now() + 3;
    int rounds = 0;
    while (now() < end || rounds <= 10) {
        by_vfork();
        by_Fork();
        rounds++;
    }
    stop = 1;
    for (int i = 0; i < 3; i++)
        join(t[i]);
    CHECK(rounds > 10);
    return 0;
}
