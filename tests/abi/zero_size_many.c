// A million zero-size blocks at once cost less than a byte each. Threads allocate and free them for
// each other, the child of a fork goes on with them, and others are aligned. No address is given to
// two of them.
// promise: 10
// flags: -pthread
// timeout: 120
// libc: skip each takes 32 bytes there
#include "common.h"
#include <pthread.h>
#include <sys/wait.h>

enum { N = 1000000, ALIGNED = 50000, THREADS = 4, ROUNDS = 50, EACH = 20000 };
static void *block[N];
static void *handed[THREADS][EACH];
static pthread_barrier_t barrier;

static int by_address(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

static void check_distinct(void **blocks, size_t count)
{
    qsort(blocks, count, sizeof *blocks, by_address);
    for (size_t i = 1; i < count; i++)
        CHECK(blocks[i] != blocks[i - 1]);
}

/* Each thread frees what another has allocated. */
static void *run(void *arg)
{
    int me = (int)(intptr_t)arg;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < EACH; i++)
            CHECK((handed[me][i] = malloc(launder_size(0))));
        pthread_barrier_wait(&barrier);
        if (me == 0)
            check_distinct(&handed[0][0], THREADS * EACH);
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < EACH; i++)
            free(handed[(me + 1) % THREADS][i]);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void)
{
    memset(block, 1, sizeof block);
    free(malloc(launder_size(0)));
    size_t before = rss_bytes();
    for (int i = 0; i < N; i++)
        CHECK((block[i] = malloc(launder_size(0))));
    CHECK(rss_bytes() < before + N);
    check_distinct(block, N);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (int i = 0; i < N; i++)
            free(block[i]);
        free(malloc(launder_size(0)));
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    for (int i = 0; i < N; i++)
        free(block[i]);
    for (int i = 0; i < ALIGNED; i++) {
        size_t align = (size_t)16 << i % 9;
        CHECK((block[i] = aligned_alloc(align, launder_size(0))) && (uintptr_t)block[i] % align == 0);
    }
    check_distinct(block, ALIGNED);
    for (int i = 0; i < ALIGNED; i++)
        free(block[i]);

    pthread_barrier_init(&barrier, NULL, THREADS);
    pthread_t thread[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, run, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    return 0;
}
