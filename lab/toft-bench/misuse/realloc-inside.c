// class: 19 Resize a pointer into a block
// sizes: 24 100 1000 40000 200000
// languages: c
// variants: same-size twice
// toft: caught inside
// secure: caught inside
#include "corpus.h"

static unsigned char *p, *q, *result;

static void prepare(void)
{
    call = "realloc";
    p = take(size);
    fill(p, size, 1);
    q = p + 16;
    announce_block(p);
    announce("q", q);
}

static void fault(void)
{
    result = (unsigned char *)launder(realloc(launder(q), is("twice") ? 2 * size : size));
}

static void correct(void)
{
    p = (unsigned char *)launder(realloc(p, is("twice") ? 2 * size : size));
    CHECK(p && filled(p, size, 1));
}

static enum verdict outcome(void)
{
    return result || !filled(p, size, 1) ? MISSED : of_the_heap(p, size);
}
