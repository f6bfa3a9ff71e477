// class: 11 Free a small block twice in a row
// sizes: 1 24 100 1000 4000
// variants: first later
// toft: caught double-free
// secure: caught double-free
// class: 13 Free a large block twice in a row
// sizes: 262144 1048576
// variants: first later
// toft: caught double-free
// secure: caught double-free
#include "corpus.h"

static unsigned char *p;

static void prepare(void)
{
    for (int i = 0; i < (is("later") ? 8 : 0); i++)
        give(take(size));
    p = take(size);
    announce_block(p);
}

static void fault(void)
{
    give(p);
    give(p);
}

static void correct(void)
{
    give(p);
}

static enum verdict outcome(void)
{
    return of_the_heap(NULL, 0);
}
