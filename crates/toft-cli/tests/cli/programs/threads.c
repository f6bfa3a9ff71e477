#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static void *kept[500], *left[300], *volatile large;
static long keeper_number;
static pthread_barrier_t ready;
static void *keep(void *arg) {
    pthread_setname_np(pthread_self(), "keeper");
    keeper_number = syscall(SYS_gettid);
    for (int i = 0; i < 500; i++) kept[i] = malloc(1000);
    pthread_barrier_wait(&ready);
    pause();
    return arg;
}
static void *leave(void *arg) {
    for (int i = 0; i < 300; i++) left[i] = malloc(2000);
    return arg;
}
int main(void) {
    pthread_t keeper, leaver;
    pthread_barrier_init(&ready, NULL, 2);
    pthread_create(&keeper, NULL, keep, NULL);
    pthread_barrier_wait(&ready);
    pthread_create(&leaver, NULL, leave, NULL);
    pthread_join(leaver, NULL);
    for (int i = 0; i < 100; i++) free(kept[i]);
    large = malloc(3 << 20);
    printf("%ld\n", keeper_number);
    fflush(stdout);
    char c;
    // Not by stdio, which would allocate between two looks.
    if (read(0, &c, 1) == 1) _exit(0);
}
