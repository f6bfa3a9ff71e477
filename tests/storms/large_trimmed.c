// Threads grow large blocks, which settle in free ones with far more pages, while one thread
// returns all that is unused, all the time. No block loses its content, and none is named.
// flags: -pthread
// env: TOFT_RECLAIM=thread
// env: TOFT_PARTITIONS=1
// run: 2
// run: 5
// timeout: 120
#include "common.h"

enum { SECONDS = 4, MIB = 1 << 20 };

static _Atomic int stop;

static void *worker(void *arg)
{
    struct rng r = {(uint64_t)(uintptr_t)arg + 7};
    while (!stop) {
        size_t size = 200 << 10, most = (1 + rng_below(&r, 16)) * MIB;
        unsigned char mark = (unsigned char)(1 + rng_below(&r, 255)), *p = malloc(size);
        CHECK(p);
        memset(p, mark, size);
        while (size < most && rng_below(&r, 12)) {
            size_t more = size + size / (1 + rng_below(&r, 3)) + rng_below(&r, 5000);
            CHECK((p = realloc(p, more)));
            memset(p + size, mark, more - size);
            size = more;
            for (size_t i = 0; i < size; i += 1000)
                CHECK(p[i] == mark);
            if (rng_below(&r, 8) == 0)
                sched_yield();
        }
        free(p);
    }
    return arg;
}

static void *purger(void *arg)
{
    while (!stop) {
        purge_all();
        usleep(200);
    }
    return arg;
}

int main(int argc, char **argv)
{
    size_t count = argc > 1 ? (size_t)atoi(argv[1]) : 2;
    pthread_t thread[16];
    CHECK(count < 16);
    for (size_t i = 0; i < count; i++)
        CHECK(!pthread_create(&thread[i], NULL, worker, (void *)i));
    CHECK(!pthread_create(&thread[count], NULL, purger, NULL));
    sleep(SECONDS);
    stop = 1;
    for (size_t i = 0; i <= count; i++)
        CHECK(!pthread_join(thread[i], NULL));
    return 0;
}
