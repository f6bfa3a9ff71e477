// class: 26 Be given the address that was freed just before
// sizes: 24 100 1000 4000 200000
// toft: prevented
// toft size=4000,200000: missed
// secure: prevented
#include "corpus.h"

enum { TRIALS = 1000 };
static int same;

static void prepare(void)
{
}

static void fault(void)
{
    for (int i = 0; i < TRIALS; i++) {
        unsigned char *p = take(size);
        uintptr_t was = (uintptr_t)p;
        give(p);
        p = take(size);
        same += (uintptr_t)p == was;
        give(p);
    }
}

static void correct(void)
{
    unsigned char *one = take(size), *other = take(size);
    CHECK(one != other);
    give(one);
    give(other);
}

/* Less than one in a hundred counts as never. */
static enum verdict outcome(void)
{
    announce_number("share", (size_t)same * 100 / TRIALS);
    return same * 100 >= TRIALS ? MISSED : PREVENTED;
}
