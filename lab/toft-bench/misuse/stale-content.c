// class: 25 Read in a new block what an earlier owner left
// sizes: 24 100 1000 4000 200000
// variants: same-call other-call
// threads: same
// repeat: 8
// toft: missed
// toft variant=other-call size=24,100: prevented 2/8
// toft variant=other-call size=1000,4000,200000: prevented|missed
// secure: prevented
// light: prevented|missed
#include "corpus.h"

static unsigned char *block[4000];
static size_t count, stale;

HELPER unsigned char *take_otherwise(size_t n)
{
    unsigned char *p = (unsigned char *)launder(ALLOCATE(n));
    CHECK(p);
    NO_TAIL_CALL();
    return p;
}

static void prepare(void)
{
    count = as_many(size, 4000);
    for (size_t i = 0; i < count; i++)
        fill(block[i] = take(size), size, 1);
    for (size_t i = 0; i < count; i++)
        give(block[i]);
}

static void fault(void)
{
    for (size_t i = 0; i < count; i++) {
        block[i] = is("other-call") ? take_otherwise(size) : take(size);
        stale += (size_t)left_over(block[i], size, 1);
    }
}

static void correct(void)
{
    for (size_t i = 0; i < count; i++)
        fill(block[i] = take(size), size, 2);
}

static enum verdict outcome(void)
{
    announce_number("share", 100 * stale / count);
    for (size_t i = 0; i < count; i++)
        give(block[i]);
    return stale ? MISSED : PREVENTED;
}
