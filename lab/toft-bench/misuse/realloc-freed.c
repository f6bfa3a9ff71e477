// class: 20 Resize a block that was freed
// sizes: 1 8 24 25 100 1000 4000 40000 200000
// languages: c
// toft: caught double-free
// secure: caught double-free
#include "corpus.h"

static unsigned char *p, *result;

static void prepare(void)
{
    call = "realloc";
    p = take(size);
    announce_block(p);
}

static void fault(void)
{
    give(p);
    result = (unsigned char *)launder(realloc(launder(p), 2 * size));
}

static void correct(void)
{
    give(launder(realloc(p, 2 * size)));
}

static enum verdict outcome(void)
{
    return result ? MISSED : of_the_heap(NULL, 0);
}
