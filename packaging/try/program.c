/* A program that is linked with Toft: threads that allocate and free each other's blocks. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <toft.h>

enum { BLOCKS = 1000 };
static char *blocks[BLOCKS];

static void *fill(void *unused) {
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(16 + i);
        memset(blocks[i], 1, 16 + i);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, fill, NULL) || pthread_join(thread, NULL)) return 1;
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i][15 + i] != 1) return 2;
        free(blocks[i]);
    }
    printf("toft %s\n", toft_version());
    return 0;
}
