// class: 12 Free a block again after a million other calls
// sizes: 24 100 1000 4000 200000
// toft: caught double-free
// secure: caught double-free
#include "corpus.h"

static unsigned char *p;

/* Of other sizes: the block must not be in use again when the second free comes. */
static void prepare(void)
{
    static unsigned char *other[1000];
    uint64_t random = 9;
    p = take(size);
    announce_block(p);
    give(p);
    for (int i = 0; i < 500000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t k = (size_t)(random >> 33) % 1000;
        if (other[k])
            give(other[k]);
        other[k] = take(300 + (size_t)(random >> 50) % 200);
    }
    for (int k = 0; k < 1000; k++)
        if (other[k])
            give(other[k]);
}

static void fault(void)
{
    give(p);
}

static void correct(void)
{
    give(take(size));
}

static enum verdict outcome(void)
{
    return of_the_heap(NULL, 0);
}
