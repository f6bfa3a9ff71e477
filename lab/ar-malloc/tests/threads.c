// Threads that hand blocks to each other and exit, and forks in the middle of it.
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 512, ROUNDS = 20000, THREADS = 6 };

static unsigned char *_Atomic slots[SLOTS];

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    _exit(1);
}

// A block's first two bytes are its size over 4, and the rest is one byte.
static unsigned char *make(unsigned size) {
    unsigned char *block = malloc(size);
    if (!block || (uintptr_t)block % 16) fail("no block, or one that is not aligned");
    memset(block, (unsigned char)size, size);
    memcpy(block, &(uint16_t){size / 4}, 2);
    return block;
}

static void end(unsigned char *block) {
    uint16_t quarter;
    memcpy(&quarter, block, 2);
    unsigned size = quarter * 4u;
    for (unsigned at = 2; at < size; at++)
        if (block[at] != (unsigned char)size) fail("a block was changed");
    free(block);
}

static void *work(void *seed) {
    unsigned state = (unsigned)(uintptr_t)seed * 2654435761u + 1;
    for (int round = 0; round < ROUNDS; round++) {
        state = state * 1664525 + 1013904223;
        unsigned size = 4 + (state >> 8) % (round % 50 ? 255 : 600) * 4;
        unsigned char *block = make(size);
        errno = 77;
        unsigned char *old = __atomic_exchange_n(&slots[(state >> 20) % SLOTS], block, __ATOMIC_ACQ_REL);
        if (old) end(old);
        if (errno != 77) fail("free changed errno");
    }
    return NULL;
}

static void child(void) {
    // Its own blocks, and those that threads of the parent had.
    for (int at = 0; at < 2000; at++) {
        unsigned char *block = make(4 + at % 250 * 4);
        unsigned char *grown = realloc(block, 1000 + at);
        if (!grown) fail("no memory in the child");
        free(grown);
    }
    for (int at = 0; at < SLOTS; at++)
        if (slots[at]) end(slots[at]);
    _exit(0);
}

int main(void) {
    unsigned char *zeros = calloc(100, 10);
    for (int at = 0; at < 1000; at++)
        if (zeros[at]) fail("calloc gave bytes that are not zero");
    void *aligned = NULL;
    if (posix_memalign(&aligned, 256, 100) || (uintptr_t)aligned % 256) fail("posix_memalign");
    if (malloc_usable_size(zeros) < 1000 || malloc_usable_size(aligned) < 100) fail("usable size");
    if (realloc(zeros, 0)) fail("realloc of size 0 gave a block");
    free(aligned);
    for (int round = 0; round < 3; round++) {
        pthread_t threads[THREADS];
        for (uintptr_t at = 0; at < THREADS; at++)
            if (pthread_create(&threads[at], NULL, work, (void *)(at + 10 * round + 1))) fail("thread");
        for (int forks = 0; forks < 5; forks++) {
            pid_t pid = fork();
            if (pid == 0) child();
            int status;
            if (waitpid(pid, &status, 0) != pid || status) fail("a child failed");
        }
        for (int at = 0; at < THREADS; at++) pthread_join(threads[at], NULL);
    }
    for (int at = 0; at < SLOTS; at++)
        if (slots[at]) end(slots[at]);
    puts("done");
    return 0;
}
