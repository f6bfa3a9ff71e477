// class: 5 Write one byte before a small block, then free it
// sizes: 16 24 64 100 1000 1024 4096
// variants: 1-byte
// toft: missed
// toft size=24,100,1000: prevented
// secure: caught underflow
// class: 6 Write before a large block, then free it
// sizes: 262144 1048576
// variants: 1-byte 32-bytes
// toft: caught SIGSEGV
// secure: caught SIGSEGV
#include "corpus.h"

static unsigned char *p;

static void prepare(void)
{
    take_row();
    p = row[low + 1];
    announce_block(p);
}

static void fault(void)
{
    /* Zero is what may be there of a block that is free. */
    for (int i = 1; i <= (is("32-bytes") ? 32 : 1); i++)
        p[-i] = p[-i] == 0x41 ? 0x42 : 0x41;
    give(p);
}

static void correct(void)
{
    p[0] ^= 0xFF;
    give(p);
}

static enum verdict outcome(void)
{
    return of_the_row(p);
}
