// Threads allocate, free for each other, end and begin, fork and purge, while one verifies the
// whole heap all the time. No false alarm; with patterns in what is freed as well.
// flags: -pthread
// run: 2
// run: 8
// timeout: 120
// libc: skip it has no such function
// aarch64: skip takes many minutes under qemu
#include "common.h"

enum { BLOCKS = 300, SECONDS = 4 };

static int (*verify)(void);
static _Atomic int stop;
static char *mailbox[64];

static void *short_life(void *arg)
{
    for (size_t i = 1; i < 300; i++)
        free(launder(malloc(i * 7)));
    return arg;
}

static void *worker(void *arg)
{
    struct rng r = {(uint64_t)(uintptr_t)arg + 77};
    char *block[BLOCKS] = {0};
    while (!stop) {
        size_t k = rng_below(&r, BLOCKS);
        switch (rng_below(&r, 12)) {
        case 0:
            free(__atomic_exchange_n(&mailbox[k % 64], NULL, __ATOMIC_ACQ_REL));
            break;
        case 1:
            block[k] = __atomic_exchange_n(&mailbox[k % 64], block[k], __ATOMIC_ACQ_REL);
            break;
        case 2:
            CHECK((block[k] = realloc(block[k], 1 + rng_below(&r, 3000))));
            break;
        case 3: {
            free(block[k]);
            size_t n = 200000 + rng_below(&r, 500000);
            CHECK((block[k] = malloc(n)));
            block[k][n - 1] = 1;
            break;
        }
        default: {
            free(block[k]);
            size_t n = 1 + rng_below(&r, rng_below(&r, 20) ? 500 : 60000);
            CHECK((block[k] = malloc(n)));
            memset(block[k], 5, n);
        }
        }
        if (rng_below(&r, 5000) == 0)
            join(spawn(short_life, NULL));
        if (rng_below(&r, 20000) == 0)
            purge_all();
    }
    for (int i = 0; i < BLOCKS; i++)
        free(block[i]);
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    verify = (int (*)(void))symbol("toft_verify");
    CHECK(verify && threads <= 16);
    pthread_t thread[16];
    for (intptr_t i = 0; i < threads; i++)
        thread[i] = spawn(worker, (void *)i);
    double begin = now();
    int looks = 0;
    for (double forked = begin; now() - begin < SECONDS; looks++) {
        CHECK(verify() == 0);
        if (now() - forked > 0.5) {
            forked = now();
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                for (int i = 0; i < 3; i++) {
                    CHECK(verify() == 0);
                    join(spawn(short_life, NULL));
                }
                _exit(0);
            }
            int status;
            CHECK(waitpid(child, &status, 0) == child && status == 0);
        }
    }
    stop = 1;
    for (int i = 0; i < threads; i++)
        join(thread[i]);
    for (int i = 0; i < 64; i++)
        free(mailbox[i]);
    CHECK(verify() == 0 && looks > 0);
    return 0;
}
