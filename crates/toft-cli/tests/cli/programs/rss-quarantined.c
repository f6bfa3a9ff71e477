#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static pthread_barrier_t all;
static void *fill(void *arg) {
    for (int size = 16; size <= 8000; size += size / 8 + 16)
        for (int i = 0; i < 100; i++) {
            char *block = malloc(size);
            memset(block, 1, size);
            free(block);
        }
    // All have a heap at once, or one would take over another's.
    pthread_barrier_wait(&all);
    return arg;
}
static void *keep(void *arg) { fill(arg); pause(); return arg; }
int toft_stats_json(int) __attribute__((weak));
int main(void) {
    pthread_t thread[9];
    pthread_barrier_init(&all, NULL, 9);
    for (int i = 0; i < 9; i++) pthread_create(&thread[i], NULL, i < 8 ? fill : keep, NULL);
    for (int i = 0; i < 8; i++) pthread_join(thread[i], NULL);
    // Enough for a reclaimer that can be asked to purge.
    for (int i = 0; i < 20000; i++) memset(malloc(1000), 1, 1000);
    char line[100];
    int length = snprintf(line, sizeof line, "{\"pid\":%d}\n", getpid());
    if (write(1, line, length) != length || toft_stats_json(1)) return 1;
    pause();
}
