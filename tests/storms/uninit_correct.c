// What a correct program does with new memory, while reads of what was not written are looked for:
// read(2), pread, getrandom and pipes into it, strings, calloc, realloc of what was never touched,
// aligned blocks, threads, forks, all descriptors closed. No alarm, and no thread waits for ever.
// flags: -pthread
// env: TOFT_GUARDED=uninit
// run: 1
// run: 4
// timeout: 120
#include "common.h"
#include <sys/random.h>

enum { BLOCKS = 100, ROUNDS = 3000 };

static void *worker(void *arg)
{
    struct rng r = {(uint64_t)(uintptr_t)arg + 1};
    unsigned char *block[BLOCKS] = {0};
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC), ends[2];
    CHECK(zero >= 0 && pipe(ends) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        size_t k = rng_below(&r, BLOCKS), n = 1 + rng_below(&r, rng_below(&r, 8) ? 500 : 60000);
        switch (rng_below(&r, 7)) {
        case 0:
            free(block[k]);
            CHECK((block[k] = malloc(n)));
            CHECK(read(zero, block[k], n) == (ssize_t)n && block[k][n - 1] == 0);
            break;
        case 1:
            free(block[k]);
            CHECK((block[k] = calloc(1, n)));
            for (size_t i = 0; i < n; i++)
                CHECK(block[k][i] == 0);
            break;
        case 2:
            /* Never touched, and then made larger or smaller. */
            free(block[k]);
            CHECK((block[k] = malloc(n)));
            CHECK((block[k] = realloc(block[k], 1 + rng_below(&r, 60000))));
            break;
        case 3:
            free(block[k]);
            CHECK((block[k] = aligned_alloc(256, n)));
            memset(block[k], 3, n);
            CHECK(block[k][n / 2] == 3);
            break;
        case 4:
            free(block[k]);
            CHECK((block[k] = malloc(n)));
            CHECK(getrandom(block[k], n < 256 ? n : 256, 0) > 0);
            CHECK(write(ends[1], block[k], 1) == 1 && read(ends[0], block[k], 1) == 1);
            break;
        case 5:
            free(block[k]);
            block[k] = (unsigned char *)strdup("a string, of no great length");
            CHECK(block[k] && strlen((char *)block[k]) == 28);
            break;
        default:
            free(block[k]);
            block[k] = NULL;
        }
        if (round % 1000 == 500) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                for (int i = 0; i < BLOCKS; i++)
                    free(block[i]);
                /* As a daemon does; what comes after takes the lowest descriptors. */
                for (int fd = 3; fd < 1100; fd++)
                    close(fd);
                int pair[2];
                CHECK(pipe(pair) == 0 && pair[0] == 3);
                for (int i = 1; i < 200; i++) {
                    char *p = launder(malloc((size_t)i * 10));
                    CHECK(p);
                    memset(p, 1, (size_t)i * 10);
                    free(p);
                }
                _exit(0);
            }
            int status;
            CHECK(waitpid(child, &status, 0) == child && status == 0);
        }
    }
    for (int i = 0; i < BLOCKS; i++)
        free(block[i]);
    CHECK(close(zero) == 0 && close(ends[0]) == 0 && close(ends[1]) == 0);
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    pthread_t thread[16];
    for (intptr_t i = 1; i < threads; i++)
        thread[i] = spawn(worker, (void *)i);
    worker(NULL);
    for (int i = 1; i < threads; i++)
        join(thread[i]);
    /* With no descriptor left to notify the watcher by, no thread waits. */
    for (int fd = 3; fd < 1100; fd++)
        close(fd);
    for (int i = 1; i < 500; i++) {
        char *p = launder(malloc((size_t)i * 10));
        CHECK(p);
        p[i] = 1;
        free(p);
    }
    return 0;
}
