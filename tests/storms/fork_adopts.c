// What threads that a child does not have left free is the child's to use: allocating as much again
// makes it hardly bigger. Address space grows by up to 64 MiB at a time, and where the parent's
// threads were at the fork decides if a few slabs are missing. So the least of some processes.
// flags: -pthread
// libc: skip glibc's child keeps to its own arena
// promise: 23 25
// aarch64: skip qemu hangs where a process with threads forks
#include "common.h"

enum { THREADS = 4, N = 20000, SIZE = 1000, PROCESSES = 5 };
static void *block[THREADS][N];
static pthread_barrier_t freed, done;

NOINLINE void *take(void)
{
    void *p = malloc(SIZE);
    CHECK(p);
    memset(p, 1, SIZE);
    return p;
}

static void *worker(void *arg)
{
    void **mine = block[(size_t)arg];
    for (int i = 0; i < N; i++)
        mine[i] = take();
    /* Nine of ten by the owner, the rest is for the child to free. */
    for (int i = 0; i < N; i++)
        if (i % 10)
            free(mine[i]);
    pthread_barrier_wait(&freed);
    pthread_barrier_wait(&done);
    return NULL;
}

/* Prints the bytes by which a child has grown. */
static int fork_once(void)
{
    pthread_t t[THREADS];
    pthread_barrier_init(&freed, NULL, THREADS + 1);
    pthread_barrier_init(&done, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++)
        t[i] = spawn(worker, (void *)i);
    pthread_barrier_wait(&freed);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        for (int k = 0; k < THREADS; k++)
            for (int i = 0; i < N; i += 10)
                free(block[k][i]);
        /* Of address space: pages that lay idle may have gone back, and come again. */
        size_t before = mallinfo2().arena + mallinfo2().hblkhd;
        for (int i = 0; i < THREADS * N * 9 / 10; i++)
            take();
        size_t after = mallinfo2().arena + mallinfo2().hblkhd;
        printf("%zu\n", after - before);
        fflush(stdout);
        _exit(0);
    }
    reap(pid);
    pthread_barrier_wait(&done);
    for (int i = 0; i < THREADS; i++)
        join(t[i]);
    return 0;
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return fork_once();
    for (int i = 0; i < PROCESSES; i++) {
        char text[64];
        CHECK(run_again("once", 1, text, sizeof text) == 0);
        printf("grown by %s", text);
        fflush(stdout);
        if (strtoull(text, NULL, 10) < (unsigned long long)THREADS * N * SIZE / 4)
            return 0;
    }
    CHECK(!"each child took new memory");
}
