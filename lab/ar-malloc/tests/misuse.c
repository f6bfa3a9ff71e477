// One misuse, by name.
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static char *volatile block;

static void *free_it(void *unused) {
    free(block);
    return unused;
}

int main(int count, char **words) {
    const char *name = count > 1 ? words[1] : "";
    block = malloc(100);
    memset(block, 1, 100);
    if (!strcmp(name, "twice")) {
        free(block);
        free(block);
    } else if (!strcmp(name, "twice-far")) {
        // So many others are freed in between that no cache has the block any more.
        char *others[64];
        for (int at = 0; at < 64; at++) others[at] = malloc(100);
        free(block);
        for (int at = 0; at < 64; at++) free(others[at]);
        free(block);
    } else if (!strcmp(name, "elsewhere")) {
        pthread_t thread;
        pthread_create(&thread, NULL, free_it, NULL);
        pthread_join(thread, NULL);
        free(block);
    } else if (!strcmp(name, "inside")) {
        free(block + 16);
    } else if (!strcmp(name, "wild")) {
        free((void *)((uintptr_t)block + (1 << 30)));
    } else if (!strcmp(name, "resize")) {
        free(block);
        block = realloc(block, 500);
    } else if (!strcmp(name, "usable")) {
        free(block);
        return malloc_usable_size(block) == 0;
    } else {
        block = realloc(block, 500);
        free(block);
    }
    return 0;
}
