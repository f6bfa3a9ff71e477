#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
enum { COUNT = 20000, SLOTS = 64 };
static _Atomic(char *) ring[SLOTS];
static void *make(void *unused) {
    for (int i = 0; i < COUNT; i++) {
        char *block = malloc(1 + i % 700), *none = 0;
        while (!atomic_compare_exchange_weak(&ring[i % SLOTS], &none, block)) { none = 0; sched_yield(); }
    }
    return unused;
}
static void *take(void *unused) {
    for (int i = 0; i < COUNT; i++) {
        char *block;
        while (!(block = atomic_exchange(&ring[i % SLOTS], 0))) sched_yield();
        free(i % 3 ? block : realloc(block, 900));
    }
    return unused;
}
int main(void) {
    for (int round = 0; round < 2; round++) {
        pthread_t a, b;
        pthread_create(&a, 0, make, 0);
        pthread_create(&b, 0, take, 0);
        pthread_join(a, 0);
        pthread_join(b, 0);
    }
    return 0;
}
