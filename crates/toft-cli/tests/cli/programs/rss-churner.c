#include <stdlib.h>
#include <stdio.h>
#include <pthread.h>
#include <unistd.h>
static pthread_barrier_t steady;
static void *volatile small[1 << 19];
static void *churn(void *arg) {
    unsigned seed = (unsigned)(size_t)arg;
    static _Thread_local void *volatile kept[5000];
    for (int round = 0;; round++) {
        int i = rand_r(&seed) % 5000;
        if (round == 20000) pthread_barrier_wait(&steady);
        free(kept[i]);
        kept[i] = malloc(1 + rand_r(&seed) % (i % 50 || arg ? 2000 : 300000));
        if (kept[i]) *(volatile char *)kept[i] = 1;
    }
}
int main(void) {
    pthread_t thread;
    pthread_barrier_init(&steady, NULL, 5);
    /* Many descriptors take long to read, so that they change meanwhile although little time is given to anybody. */
    for (int i = 0; i < 1 << 19; i++) small[i] = malloc(16);
    for (size_t i = 0; i < 4; i++) pthread_create(&thread, NULL, churn, (void *)i);
    pthread_barrier_wait(&steady);
    printf("{\"pid\":%d}\n{}\n", getpid());
    fflush(stdout);
    pause();
}
