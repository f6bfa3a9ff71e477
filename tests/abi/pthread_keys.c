// The program gets all pthread keys, the one that Toft had included, and threads that allocate work
// when no key is free. What threads leave that were there before serves threads that come after,
// and the child of a fork keeps its heap.
// flags: -pthread
// promise: 25
// musl: skip one of its 128 keys is Toft's
// aarch64: skip qemu fails an assertion
#include "common.h"

static void *thread(void *arg)
{
    for (size_t i = 0; i < 1000; i++)
        free(malloc(i * 100));
    return arg;
}

/* Blocks that no other thread has. */
static void *letters(void *letter)
{
    char *block[64] = { NULL };
    for (int i = 0; i < 20000; i++) {
        int at = i * 7 % 64;
        if (block[at])
            CHECK(block[at][0] == (char)(long)letter && block[at][199] == (char)(long)letter);
        free(block[at]);
        CHECK((block[at] = malloc(200)));
        memset(block[at], (char)(long)letter, 200);
    }
    return NULL;
}

static pthread_barrier_t taken;

/* It has a heap from the time when Toft had a key. */
static void *early(void *arg)
{
    thread(arg);
    pthread_barrier_wait(&taken);
    pthread_barrier_wait(&taken);
    thread(arg);
    return arg;
}

enum { EARLY = 20 };

int main(void)
{
    pthread_t threads[EARLY];
    CHECK(pthread_barrier_init(&taken, NULL, EARLY + 1) == 0);
    for (int i = 0; i < EARLY; i++)
        threads[i] = spawn(early, NULL);
    pthread_barrier_wait(&taken);
    pthread_key_t key[PTHREAD_KEYS_MAX];
    int n = 0;
    while (n < PTHREAD_KEYS_MAX && pthread_key_create(&key[n], free) == 0)
        n++;
    CHECK(n == PTHREAD_KEYS_MAX);
    for (int i = 0; i < n; i++)
        CHECK(pthread_getspecific(key[i]) == NULL);
    pthread_barrier_wait(&taken);
    for (int i = 0; i < EARLY; i++)
        join(threads[i]);
    size_t rss = rss_bytes();
    for (int i = 0; i < 2000; i++)
        join(spawn(thread, NULL));
    CHECK(rss_bytes() < rss + (8 << 20));
    for (int round = 0; round < 10; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            /* The birth asks which threads still run: this one does, under another number than in the parent. */
            pthread_t others[2 * EARLY];
            for (int i = 0; i < 2 * EARLY; i++)
                others[i] = spawn(letters, (void *)(long)('A' + i));
            letters((void *)'0');
            for (int i = 0; i < 2 * EARLY; i++)
                join(others[i]);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    for (int i = 0; i < n; i++)
        CHECK(pthread_setspecific(key[i], malloc(10)) == 0);
    return 0;
}
