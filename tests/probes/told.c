// Allocates and frees, blocks of its thread and of another, and writes what into the file of its
// first word. probes.rs compares that with what a tracer has seen: "a ADDRESS BYTES" is an
// allocation, "f ADDRESS" a free that follows. With the word `twice` after it, frees one more block
// two times.
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL 6000
static FILE *record;
static void *blocks[SMALL];
static pthread_t thread;
static sem_t blocks_are_there;

static void *had(void *block) {
    fprintf(record, "a %lx %zu\n", (unsigned long)(uintptr_t)block, malloc_usable_size(block));
    return block;
}

static void give(void *block) {
    fprintf(record, "f %lx\n", (unsigned long)(uintptr_t)block);
    free(block);
}

static void *frees_a_third(void *nothing) {
    while (sem_wait(&blocks_are_there)) {}
    for (int i = 1; i < SMALL; i += 3) give(blocks[i]);
    return nothing;
}

// What libc allocates for a file and for a thread, of which nothing is written, it allocates before
// a tracer begins at main.
__attribute__((constructor)) static void begin(int count, char **words) {
    static char buffer[1 << 16];
    if (count < 2 || !(record = fopen(words[1], "w"))) exit(1);
    setvbuf(record, buffer, _IOFBF, sizeof buffer);
    if (sem_init(&blocks_are_there, 0, 0) || pthread_create(&thread, NULL, frees_a_third, NULL)) exit(1);
}

int main(int count, char **words) {
    for (int i = 0; i < SMALL; i++) blocks[i] = had(i % 2 ? malloc(48) : calloc(3, 50));
    // A medium block that is freed and had again, over and over.
    for (int i = 0; i < 100; i++) give(had(malloc(3000)));
    void *aligned = had(aligned_alloc(256, 5000));
    void *large = had(malloc(1 << 20));
    fprintf(record, "f %lx\n", (unsigned long)(uintptr_t)large);
    large = had(realloc(large, 3 << 20));
    void *medium = had(malloc(9000));
    fprintf(record, "f %lx\n", (unsigned long)(uintptr_t)medium);
    medium = had(realloc(medium, 40000));
    if (sem_post(&blocks_are_there) || pthread_join(thread, NULL)) return 1;
    for (int i = 0; i < SMALL; i += 3) give(blocks[i]);
    give(aligned);
    give(large);
    give(medium);
    fclose(record);
    if (count > 2 && !strcmp(words[2], "twice")) {
        // Whichever of them a tracer has seen: all are freed twice.
        for (int i = 2; i < SMALL; i += 3) {
            free(blocks[i]);
            free(blocks[i]);
        }
    }
    return 0;
}
