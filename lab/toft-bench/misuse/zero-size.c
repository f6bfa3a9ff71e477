// class: 24 Write or read through a block of no bytes
// sizes: 0
// variants: write read
// toft: caught SIGSEGV
#include "corpus.h"

enum { BLOCKS = 256, BEFORE = 4000 };
static unsigned char *p, *others[BLOCKS], seen;

static void prepare(void)
{
    static unsigned char *small[BEFORE];
    for (int i = 0; i < BEFORE; i++) {
        small[i] = take(16);
        memset(small[i], 0x5A, 16);
    }
    for (int i = 0; i < BEFORE; i++)
        give(small[i]);
    for (int i = 0; i < BLOCKS; i++) {
        if (i == BLOCKS / 2)
            p = take(0);
        *(others[i] = take(1)) = (unsigned char)i;
    }
    announce("p", p);
}

static void fault(void)
{
    if (is("write"))
        *(volatile unsigned char *)p = 0xFF;
    else
        seen = *(volatile unsigned char *)p;
}

static void correct(void)
{
}

/* What an earlier owner left must not be there to read. */
static enum verdict outcome(void)
{
    for (int i = 0; i < BLOCKS; i++)
        if (*others[i] != (unsigned char)i)
            return MISSED;
    give(p);
    if (seen)
        return MISSED;
    size = 1;
    return of_the_heap(NULL, 0);
}
