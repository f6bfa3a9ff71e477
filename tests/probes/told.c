// Allocates and frees, of its own thread and of another, and writes what into the file of its first word, for probes.rs
// to compare with what a tracer was told: "a ADDRESS BYTES" is an allocation, "f ADDRESS" a free that follows.
// With the word `twice` behind it, frees one more block two times.
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL 6000
static FILE *record;
static void *blocks[SMALL];

static void *had(void *block) {
    fprintf(record, "a %lx %zu\n", (unsigned long)(uintptr_t)block, malloc_usable_size(block));
    return block;
}

static void give(void *block) {
    fprintf(record, "f %lx\n", (unsigned long)(uintptr_t)block);
    free(block);
}

static void *frees_a_third(void *nothing) {
    for (int i = 1; i < SMALL; i += 3) give(blocks[i]);
    return nothing;
}

int main(int count, char **words) {
    static char buffer[1 << 16];
    record = fopen(words[1], "w");
    setvbuf(record, buffer, _IOFBF, sizeof buffer);
    // A file's own blocks, and those of a thread, are allocated before the tracer begins, or are no concern of its.
    pthread_t thread;
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
    if (pthread_create(&thread, NULL, frees_a_third, NULL) || pthread_join(thread, NULL)) return 1;
    for (int i = 0; i < SMALL; i += 3) give(blocks[i]);
    give(aligned);
    give(large);
    give(medium);
    fclose(record);
    if (count > 2 && !strcmp(words[2], "twice")) {
        // Whichever of them a tracer was told of: all are freed twice.
        for (int i = 2; i < SMALL; i += 3) {
            free(blocks[i]);
            free(blocks[i]);
        }
    }
    return 0;
}
