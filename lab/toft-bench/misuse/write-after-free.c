// class: 9 Write to a small block after it was freed, until it is handed out again
// sizes: 24 100 1000 4000
// variants: first-word second-word middle last-byte
// toft: missed
// toft size=4000: prevented|missed
// secure: caught written-after-free
// secure thread=cross: caught|late|prevented written-after-free
// light: prevented|missed
// class: 10 Write to a large block after it was freed, until it is handed out again
// sizes: 262144 1048576
// variants: first-word middle last-byte
// toft: missed
// secure: caught SIGSEGV
#define OWN_THREADS
#include "corpus.h"

static unsigned char *p, *at, written;
static enum reuse reuse;

static void prepare(void)
{
    for (int i = 0; i < 8; i++)
        give(take(size));
    p = take(size);
    fill(p, size, 1);
    at = p + (is("first-word") ? 0 : is("second-word") ? 8 : is("middle") ? size / 2 : size - 1);
    announce_block(p);
}

static void strike(void)
{
    give(p);
    written = *(volatile unsigned char *)at == 0x41 ? 0x42 : 0x41;
    *(volatile unsigned char *)at = written;
}

/* Who had the block is who looks for it. */
static void fault(void)
{
    if (cross)
        elsewhere(strike);
    else
        strike();
    reuse = comes_back(p);
}

static void correct(void)
{
    *(volatile unsigned char *)at = 0x41;
    give(p);
    comes_back(p);
}

/* Harmless when the block is not handed out again, or what was written is gone by then. */
static enum verdict outcome(void)
{
    if (reuse == TWICE || (reuse == AGAIN && *(volatile unsigned char *)at == written))
        return MISSED;
    return of_the_heap(NULL, 0);
}
