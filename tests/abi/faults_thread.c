// What the first calls of a thread cost in page faults. Its heap's tables are got for writing, each
// page once, and a thread that takes over the heap of one that has ended finds them all. Where
// threads run at the same time, each page that is replaced by another must leave the other
// processors' caches, too.
// libc: skip it has other tables
#include "common.h"
#include <pthread.h>
#include <sys/resource.h>

enum { THREADS = 16, SITES = 8 };
static pthread_barrier_t all;
static long cost[THREADS];

static long faults(void)
{
    struct rusage used;
    getrusage(RUSAGE_THREAD, &used);
    return used.ru_minflt;
}

static void *work(void *argument)
{
    long *cost = argument;
    void *block[SITES];
    // Its own stack and code.
    memset(block, 1, sizeof block);
    pthread_barrier_wait(&all);
    long before = faults();
    // Separate call sites, of one class: what is counted is not the slots' pages.
    block[0] = malloc(40);
    block[1] = malloc(40);
    block[2] = malloc(40);
    block[3] = malloc(40);
    block[4] = malloc(40);
    block[5] = malloc(40);
    block[6] = malloc(40);
    block[7] = malloc(40);
    for (int i = 0; i < SITES; i++) {
        CHECK(block[i]);
        free(block[i]);
    }
    *cost = faults() - before;
    // None ends before all have begun: each has its own heap.
    pthread_barrier_wait(&all);
    return 0;
}

static double faults_a_thread(void)
{
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], 0, work, &cost[i]) == 0);
    long sum = 0;
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(thread[i], 0) == 0);
        sum += cost[i];
    }
    return (double)sum / THREADS;
}

int main(void)
{
    CHECK(pthread_barrier_init(&all, 0, THREADS) == 0);
    double first = faults_a_thread(), again = faults_a_thread();
    printf("%.1f faults of a thread, and %.1f of one that comes after it\n", first, again);
    fflush(stdout);
    CHECK(first < 23);
    CHECK(again < 2);
    return 0;
}
