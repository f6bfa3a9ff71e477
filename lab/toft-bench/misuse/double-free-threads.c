// class: 14 Free a block twice, by two threads one after the other
// sizes: 1 8 24 25 100 1000 4000 40000 200000
// threads: same
// variants: stranger-stranger stranger-owner owner-stranger
// toft: caught double-free
// secure: caught double-free
#include "corpus.h"

static unsigned char *p;

static void prepare(void)
{
    p = take(size);
    announce_block(p);
}

static void give_it(void)
{
    give(p);
}

static void fault(void)
{
    if (is("owner-stranger"))
        give_it();
    else
        elsewhere(give_it);
    if (is("stranger-owner"))
        give_it();
    else
        elsewhere(give_it);
}

static void correct(void)
{
    if (is("owner-stranger"))
        give_it();
    else
        elsewhere(give_it);
}

static enum verdict outcome(void)
{
    return of_the_heap(NULL, 0);
}
