// class: 21 Ask for the usable size of what was freed, or of a pointer into a block
// sizes: 24 100 1000 40000 262144
// languages: c
// variants: freed inside
// toft variant=freed: caught double-free
// toft variant=inside: caught inside
// secure variant=freed: caught double-free
// secure variant=inside: caught inside
#include "corpus.h"

static unsigned char *p, *q;
static size_t result;

static void prepare(void)
{
    call = "malloc_usable_size";
    p = take(size);
    q = p + (is("inside") ? 16 : 0);
    announce_block(p);
    announce("q", q);
}

static void fault(void)
{
    if (is("freed"))
        give(p);
    result = malloc_usable_size(launder(q));
}

static void correct(void)
{
    CHECK(malloc_usable_size(launder(p)) >= size);
    give(p);
}

static enum verdict outcome(void)
{
    return result ? MISSED : PREVENTED;
}
