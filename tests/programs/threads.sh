# 1 000 threads at once, and 20 000 short ones, each with its own blocks and blocks of others.
# needs: gcc gcc
# timeout: 300
cat >t.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { AT_ONCE = 1000, SHORT = 20000, BLOCKS = 50 };
static char *shared[AT_ONCE];
static pthread_barrier_t all;
static long work(long n, int rounds) {
    char *kept[BLOCKS] = { 0 };
    long sum = 0;
    unsigned state = (unsigned)n * 2654435761u + 1;
    for (int i = 0; i < rounds; i++) {
        state = state * 1664525u + 1013904223u;
        int at = state >> 16 & 31;
        size_t size = 16 + (state >> 8) % 1000;
        if (kept[at]) {
            sum += kept[at][0];
            free(kept[at]);
        }
        kept[at] = malloc(size);
        memset(kept[at], (char)(state & 63), size);
    }
    for (int i = 0; i < BLOCKS; i++) free(kept[i]);
    return sum;
}
static void *at_once(void *p) {
    long n = (long)p;
    shared[n] = calloc(1, 100 + (size_t)n);
    long sum = work(n, 200);
    pthread_barrier_wait(&all);
    free(shared[(n * 7 + 1) % AT_ONCE]);
    pthread_barrier_wait(&all);
    return (void *)sum;
}
static void *brief(void *p) { return (void *)work((long)p, 20); }
int main(void) {
    static pthread_t threads[AT_ONCE];
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 64 << 10);
    pthread_barrier_init(&all, 0, AT_ONCE);
    long sum = 0;
    for (long n = 0; n < AT_ONCE; n++)
        if (pthread_create(&threads[n], &attr, at_once, (void *)n)) return 2;
    for (long n = 0; n < AT_ONCE; n++) {
        void *got;
        pthread_join(threads[n], &got);
        sum += (long)got;
    }
    printf("at once: %ld\n", sum);
    sum = 0;
    for (long n = 0; n < SHORT; n += 8) {
        for (long i = 0; i < 8; i++)
            if (pthread_create(&threads[i], &attr, brief, (void *)(n + i))) return 2;
        for (long i = 0; i < 8; i++) {
            void *got;
            pthread_join(threads[i], &got);
            sum += (long)got;
        }
    }
    printf("short: %ld\n", sum);
}
C
gcc -O1 -o t t.c -pthread
./t
