// class: 4 Write on for 1 MiB past a block, among many of its size
// sizes: 64 1000 20000 262144
// toft: missed
// toft size=262144: caught SIGSEGV
// secure: caught SIGSEGV
#include "corpus.h"

/* Four times as much as is written over. */
enum { MOST = 65536, SWEEP = 1 << 20 };
static unsigned char *block[MOST], *p;
static size_t blocks;

static void prepare(void)
{
    blocks = (size_t)4 * SWEEP / size;
    for (size_t i = 0; i < blocks; i++)
        block[i] = take(size);
    qsort(block, blocks, sizeof block[0], by_address);
    for (size_t i = 0; i < blocks; i++)
        fill(block[i], size, i);
    p = block[blocks / 4];
    announce_block(p);
}

static void fault(void)
{
    volatile unsigned char *end = p + size;
    for (size_t i = 0; i < SWEEP; i++)
        end[i] = 0;
}

static void correct(void)
{
}

static enum verdict outcome(void)
{
    int whole = 1;
    for (size_t i = 0; i < blocks; i++)
        whole &= filled(block[i], size, i);
    for (size_t i = 0; i < blocks; i++)
        give(block[i]);
    return handed_out_once(NULL, 0) && whole ? PREVENTED : MISSED;
}
