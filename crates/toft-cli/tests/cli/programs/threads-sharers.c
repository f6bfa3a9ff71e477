#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_barrier_t ready;
static void *volatile block[8];
static void *sleeper(void *arg) {
    block[(long)arg] = malloc(700);
    pthread_barrier_wait(&ready);
    pause();
    return arg;
}
int main(void) {
    pthread_t thread;
    pthread_barrier_init(&ready, NULL, 2);
    for (long i = 0; i < 8; i++) {
        pthread_create(&thread, NULL, sleeper, (void *)i);
        pthread_barrier_wait(&ready);
    }
    puts("ready");
    fflush(stdout);
    char c;
    return read(0, &c, 1) != 1;
}
