// class: 15 Free a block twice, by two threads at the same moment
// sizes: 64 5000 300000
// threads: same
// variants: strangers owner
// repeat: 20
// toft: caught|late race
// secure: caught|late race
#include "corpus.h"

static unsigned char *p;
static pthread_barrier_t barrier;

static void prepare(void)
{
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    p = take(size);
    announce_block(p);
}

static void *race(void *block)
{
    pthread_barrier_wait(&barrier);
    if (block)
        give(block);
    return NULL;
}

static void two(void *first, void *second)
{
    pthread_t thread[2];
    CHECK(pthread_create(&thread[0], NULL, race, first) == 0);
    if (is("owner"))
        race(second);
    else
        CHECK(pthread_create(&thread[1], NULL, race, second) == 0);
    CHECK(pthread_join(thread[0], NULL) == 0);
    if (!is("owner"))
        CHECK(pthread_join(thread[1], NULL) == 0);
}

static void fault(void)
{
    two(p, p);
}

static void correct(void)
{
    two(p, NULL);
}

static enum verdict outcome(void)
{
    return of_the_heap(NULL, 0);
}
