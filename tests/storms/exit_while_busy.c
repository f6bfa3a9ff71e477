// Processes end, by exit and by return from main, while their threads are in the middle of malloc
// and free: no hang and no crash on the way out.
// flags: -pthread
// timeout: 60
// promise: 24 25
#include "common.h"

static void *worker(void *arg)
{
    struct rng r = {(size_t)arg + 1};
    static __thread void *block[100];
    for (;;) {
        size_t i = rng_below(&r, 100);
        free(block[i]);
        block[i] = malloc(rng_below(&r, 20000));
    }
}

static void late(void)
{
    for (size_t i = 0; i < 200; i++)
        free(malloc(i * 100));
}

int main(void)
{
    double end = now() + 4;
    int processes = 0;
    while (now() < end || processes <= 20) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            atexit(late);
            for (size_t i = 0; i < 4; i++)
                spawn(worker, (void *)i);
            usleep((useconds_t)(processes * 37 % 3000));
            exit(0);
        }
        reap(pid);
        processes++;
    }
    CHECK(processes > 20);
    return 0;
}
