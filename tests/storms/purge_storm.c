// Threads allocate and free, and all of them purge all the time. So each takes from the quarantines
// of the others what they take themselves, and verifies what waits there. Nothing is taken twice:
// no block is named, and none is handed out while it is in use.
// flags: -pthread
// run: 2
// run: 6
// timeout: 120
#include "common.h"

enum { BLOCKS = 400, SECONDS = 4 };

static int (*verify)(void);
static _Atomic int stop;

static void *worker(void *arg)
{
    struct rng r = {(uint64_t)(uintptr_t)arg + 7};
    static _Thread_local uintptr_t *block[BLOCKS];
    while (!stop) {
        for (size_t i = 0; i < BLOCKS; i++) {
            size_t k = rng_below(&r, BLOCKS);
            if (block[k]) {
                CHECK(*block[k] == ((uintptr_t)&block[k] ^ k));
                free(block[k]);
            }
            CHECK((block[k] = malloc(8 + rng_below(&r, 500))));
            *block[k] = (uintptr_t)&block[k] ^ k;
        }
        purge_all();
        if (verify && rng_below(&r, 4) == 0)
            CHECK(verify() == 0);
    }
    for (size_t k = 0; k < BLOCKS; k++)
        free(block[k]);
    return arg;
}

int main(int argc, char **argv)
{
    size_t count = argc > 1 ? (size_t)atoi(argv[1]) : 2;
    pthread_t thread[16];
    CHECK(count <= 16);
    verify = (int (*)(void))dlsym(RTLD_DEFAULT, "toft_verify");
    for (size_t i = 0; i < count; i++)
        CHECK(!pthread_create(&thread[i], NULL, worker, (void *)i));
    sleep(SECONDS);
    stop = 1;
    for (size_t i = 0; i < count; i++)
        CHECK(!pthread_join(thread[i], NULL));
    return 0;
}
