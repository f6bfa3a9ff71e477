// class: 31 Ask for a number of elements whose size wraps round, and be given a block
// sizes: 100
// languages: c
// variants: calloc reallocarray
// toft: prevented
// secure: prevented
#include "corpus.h"

static unsigned char *p;
static void *given;

static void prepare(void)
{
    p = take(size);
    fill(p, size, 1);
}

static void fault(void)
{
    /* The product is 16. */
    size_t number = ((size_t)1 << 60) + 1, each = 16;
    __asm__ volatile("" : "+r"(number), "+r"(each));
    given = launder(is("calloc") ? calloc(number, each) : reallocarray(p, number, each));
}

static void correct(void)
{
    give(take(size));
}

static enum verdict outcome(void)
{
    return given || !filled(p, size, 1) ? MISSED : of_the_heap(p, size);
}
