// What is in quarantine is released before malloc returns NULL: the thread's own, that of a thread
// that has ended, and that of one that runs.
// flags: -pthread
// ulimit: -v 400000
// build: secure the default one has none
// libc: skip glibc has none
// promise: 14 26
#include "common.h"

enum { SIZE = 40000, LAST = 2 };

static void **blocks;
static size_t count;
static pthread_barrier_t barrier;

NOINLINE void *allocate(void)
{
    void *p = malloc(SIZE);
    NO_TAIL_CALL();
    return p;
}

static void free_last(void)
{
    for (int i = 0; i < LAST; i++)
        free(blocks[--count]);
}

static void fill_up(void)
{
    void *p;
    while ((p = allocate()))
        blocks[count++] = p;
    CHECK(errno == ENOMEM);
}

/* As many as were freed can be had again. */
static void take_last(void)
{
    for (int i = 0; i < LAST; i++)
        CHECK((blocks[count++] = allocate()));
}

/* Frees on request; the thread starts before memory is short. */
static void *freer(void *arg)
{
    free(launder(malloc(10)));
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    free_last();
    pthread_barrier_wait(&barrier);
    if (arg)
        pthread_barrier_wait(&barrier);
    return NULL;
}

int main(void)
{
    blocks = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(blocks != MAP_FAILED);
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    for (int runs_on = 0; runs_on < 2; runs_on++) {
        pthread_t thread = spawn(freer, runs_on ? &barrier : NULL);
        pthread_barrier_wait(&barrier);
        fill_up();
        free_last();
        take_last();
        fill_up();
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        if (!runs_on)
            join(thread);
        take_last();
        if (runs_on) {
            pthread_barrier_wait(&barrier);
            join(thread);
        }
        while (count)
            free(blocks[--count]);
    }
    return 0;
}
