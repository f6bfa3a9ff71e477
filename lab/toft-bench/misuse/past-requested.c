// class: 1 Write one byte past the requested size, then free
// sizes: 1 8 16 24 25 64 100 1000 1024 4000 4096 40000 200000
// toft: prevented
// toft size=16,64,1024,4096: missed
// secure: caught overflow
// secure size=200000: caught SIGSEGV
#include "corpus.h"

static unsigned char *p;

static void prepare(void)
{
    take_row();
    p = row[low];
    announce_block(p);
}

static void fault(void)
{
    p[size] ^= 0xFF;
    give(p);
}

static void correct(void)
{
    p[size - 1] ^= 0xFF;
    give(p);
}

static enum verdict outcome(void)
{
    return of_the_row(p);
}
