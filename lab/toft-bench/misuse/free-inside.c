// class: 16 Free a pointer into a block
// sizes: 100 1000 40000 262144
// variants: 1-in 8-in 16-in crafted
// toft: caught inside
// secure: caught inside
#include "corpus.h"

static unsigned char *p, *q;

static void prepare(void)
{
    p = take(size);
    fill(p, size, 1);
    /* As the header of a small block of glibc. */
    if (is("crafted"))
        for (size_t i = 0; i + 8 <= size; i += 8)
            memcpy(p + i, "\x71\0\0\0\0\0\0", 8);
    q = p + (is("1-in") ? 1 : is("8-in") ? 8 : 16);
    announce_block(p);
    announce("q", q);
}

static void fault(void)
{
    give(q);
}

static void correct(void)
{
    give(take(size));
}

static enum verdict outcome(void)
{
    enum verdict verdict = of_the_heap(p, size);
    give(p);
    return verdict;
}
