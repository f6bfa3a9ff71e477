// malloc_trim may be called often: while a program frees and allocates in turn, a call returns
// nothing and costs no faults. The first call after much was freed returns all of it, whichever
// thread has freed it. A call after nothing was freed returns 0. After a second a call returns a
// little, too.
// promise: 22
// flags: -pthread
// env: TOFT_RECLAIM=off
// timeout: 180
// libc: skip it trims at each call, and only the top of its heap
// build: default the secure build maps each large block anew, and a quarantine holds frees back
#include "bound.h"
#include "page_faults.h"

enum { MOST = 1 << 18, ROUNDS = 20000 };
static char *block[MOST];

/* A kind of heap: `blocks` blocks of `size` bytes. Of each row of `row` blocks the first quarter stays, or one block
 * of four. */
struct kind {
    size_t size, blocks, row;
};

static void new_block(const struct kind *k, size_t i)
{
    CHECK(block[i] = malloc(k->size));
    *block[i] = 1;
}

static void *free_much(void *arg)
{
    const struct kind *k = arg;
    for (size_t i = 0; i < k->blocks; i++)
        if (i % k->row >= k->row / 4) {
            free(block[i]);
            block[i] = NULL;
        }
    return NULL;
}

static void try(const struct kind *k, int by_another)
{
    for (size_t i = 0; i < k->blocks; i++) {
        new_block(k, i);
        memset(block[i], 1, k->size);
    }
    struct rng r = {by_another + 1};
    malloc_trim(0);
    size_t before = (size_t)page_faults(), returned = 0;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int round = 0; round < ROUNDS; round++) {
        size_t i = rng_below(&r, k->blocks);
        free(block[i]);
        returned += malloc_trim(0) != 0;
        new_block(k, i);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    size_t faulted = (size_t)page_faults() - before;
    /* One call in 40 ticks may return something. */
    size_t seconds = (size_t)(end.tv_sec - begin.tv_sec) + 1;
    printf("size %zu: %zu of %d trims returned memory, %zu faults, %zu s\n", k->size, returned, ROUNDS, faulted, seconds);
    CHECK(returned <= 3 * seconds);
    CHECK(k->size > 128 * KIB || faulted < ROUNDS / 4);

    size_t full = resident();
    if (by_another)
        join(spawn(free_much, (void *)k));
    else
        free_much((void *)k);
    CHECK(malloc_trim(0) == 1);
    size_t freed = k->blocks * k->size / 4 * 3, left = resident();
    printf("size %zu: %zu KiB freed, %zu returned\n", k->size, freed / KIB, (full - left) / KIB);
    CHECK(full - left > freed / 10 * 9);
    CHECK(malloc_trim(0) == 0);
    for (size_t i = 0; i < k->blocks; i++) {
        if (block[i])
            CHECK(*block[i] == 1);
        free(block[i]);
    }
    malloc_trim(0);
}

/* A sixteenth is freed. */
static void after_a_while(const struct kind *k)
{
    for (size_t i = 0; i < k->blocks; i++)
        new_block(k, i);
    purge_all();
    for (size_t i = 0; i < k->blocks; i += 16)
        free(block[i]);
    /* On a busy machine the purge took long, and the next one waits for longer. */
    int returned = 0;
    for (int i = 0; i < 60 && !returned; i++) {
        sleep(1);
        returned = malloc_trim(0);
    }
    CHECK(returned);
    for (size_t i = 0; i < k->blocks; i++)
        if (i % 16)
            free(block[i]);
}

int main(void)
{
    memset(block, 1, sizeof block);
    bound_begin();
    const struct kind kinds[] = {
        {100, MOST, 1 << 14},
        {1000, 1 << 16, 64},
        {5000, 1 << 13, 16},
        {32 << 10, 1 << 11, 4},
        {120 << 10, 1 << 9, 4},
        {1 << 20, 1 << 6, 4},
    };
    for (int by_another = 0; by_another < 2; by_another++)
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            try(&kinds[i], by_another);
    after_a_while(&kinds[3]);
    return 0;
}
