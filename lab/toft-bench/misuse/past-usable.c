// class: 2 Write past the usable size of a small block, then free
// sizes: 24 100 1000 4000
// variants: 1-byte 8-bytes
// toft: missed
// secure: caught overflow
// class: 3 Write past the usable size of a large block, then free
// sizes: 262144 1048576
// variants: 1-byte 8-bytes
// toft: caught SIGSEGV
// secure: caught SIGSEGV
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
    unsigned char *end = p + usable_in_row[low];
    for (int i = 0; i < (is("8-bytes") ? 8 : 1); i++)
        end[i] ^= 0xFF;
    give(p);
}

static void correct(void)
{
    p[usable_in_row[low] - 1] ^= 0xFF;
    give(p);
}

static enum verdict outcome(void)
{
    return of_the_row(p);
}
