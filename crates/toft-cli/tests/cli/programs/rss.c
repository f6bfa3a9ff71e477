#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#define N 20000
int toft_stats_json(int) __attribute__((weak));
static char zeroed[1 << 20];
static void *pinning[N], *given[N], *held[1000], *big[3];
static int ready[2], never[2];
static int worker_number;
__attribute__((noinline)) void pin(void) {
    for (int i = 0; i < N; i++) memset(pinning[i] = malloc(250), 1, 250);
}
__attribute__((noinline)) void give(void) {
    for (int i = 0; i < N; i++) memset(given[i] = malloc(310), 1, 310);
}
__attribute__((noinline)) void large(void) {
    for (int i = 0; i < 3; i++) memset(big[i] = malloc(1 << 20), 1, 1 << 20);
}
__attribute__((noinline)) void hold(void) {
    for (int i = 0; i < 1000; i++) memset(held[i] = malloc(3000), 2, 3000);
}
static void *worker(void *arg) {
    char c = 0;
    worker_number = gettid();
    hold();
    if (write(ready[1], &c, 1) != 1 || read(never[0], &c, 1) != 1) return NULL;
    return NULL;
}
static size_t left(void **blocks, int n) {
    size_t bytes = 0;
    for (int i = 0; i < n; i++) if (blocks[i]) bytes += malloc_usable_size(blocks[i]);
    return bytes;
}
int main(int n, char **v) {
    pthread_t thread;
    char c, line[200];
    if (pipe(ready) || pipe(never)) return 1;
    pin(); give(); large(); memset(zeroed, 1, sizeof zeroed);
    for (int i = 0; i < N; i++) {
        if (i % 16) { free(pinning[i]); pinning[i] = NULL; }
        free(given[i]);
    }
    free(big[1]); big[1] = NULL;
    pthread_create(&thread, NULL, worker, NULL);
    if (read(ready[0], &c, 1) != 1) return 1;
    for (int i = 0; i < 1000; i += 10) { free(held[i]); held[i] = NULL; }
    int length = snprintf(line, sizeof line, "{\"pid\":%d,\"worker\":%d,\"pin\":%zu,\"hold\":%zu,\"large\":%zu}\n",
        getpid(), worker_number, left(pinning, N), left(held, 1000), left(big, 3));
    if (write(1, line, length) != length || toft_stats_json(1)) return 1;
    pause();
}
