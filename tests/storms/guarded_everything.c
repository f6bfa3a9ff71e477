// Every call that there is on sampled blocks: what they hold, how they are aligned, what they can
// be made into, in threads and in the children of forks. Four threads fill the pool. No alarm.
// flags: -pthread
// env: TOFT_GUARDED=1
// run: 1
// run: 4
// timeout: 120
// aarch64: skip takes many minutes under qemu
#include "common.h"

enum { BLOCKS = 500, ROUNDS = 4000 };

static void *worker(void *arg)
{
    struct rng r = {(uint64_t)(uintptr_t)arg + 1};
    unsigned char *block[BLOCKS] = {0};
    size_t size[BLOCKS] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        size_t k = rng_below(&r, BLOCKS), n = 1 + rng_below(&r, rng_below(&r, 8) ? 500 : 200000);
        if (block[k])
            CHECK(filled(block[k], size[k], (unsigned)k));
        switch (rng_below(&r, 5)) {
        case 0:
            free(block[k]);
            CHECK((block[k] = malloc(n)));
            break;
        case 1:
            free(block[k]);
            CHECK((block[k] = calloc(1, n)));
            for (size_t i = 0; i < n; i++)
                CHECK(block[k][i] == 0);
            break;
        case 2: {
            unsigned char *larger = realloc(block[k], n);
            CHECK(larger);
            if (block[k])
                CHECK(filled(larger, size[k] < n ? size[k] : n, (unsigned)k));
            block[k] = larger;
            break;
        }
        case 3: {
            size_t align = (size_t)16 << rng_below(&r, 9);
            free(block[k]);
            CHECK((block[k] = aligned_alloc(align, n)));
            CHECK((uintptr_t)block[k] % align == 0);
            break;
        }
        default:
            free(block[k]);
            block[k] = NULL;
            continue;
        }
        CHECK((uintptr_t)block[k] % 16 == 0);
        size_t usable = malloc_usable_size(block[k]);
        CHECK(usable >= n);
        size[k] = n;
        fill(block[k], usable, (unsigned)k);
        if (round % 1000 == 500) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                for (int i = 0; i < BLOCKS; i++)
                    free(block[i]);
                for (int i = 0; i < 1000; i++)
                    free(launder(malloc((size_t)i)));
                _exit(0);
            }
            int status;
            CHECK(waitpid(child, &status, 0) == child && status == 0);
        }
    }
    for (int i = 0; i < BLOCKS; i++)
        free(block[i]);
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    pthread_t thread[16];
    for (intptr_t i = 1; i < threads; i++)
        CHECK(pthread_create(&thread[i], NULL, worker, (void *)i) == 0);
    worker(NULL);
    for (int i = 1; i < threads; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    return 0;
}
