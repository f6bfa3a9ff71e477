// class: 7 Read a small block after it was freed
// sizes: 24 100 1000 4000
// variants: first later
// toft: missed
// secure: prevented
// light: missed
// class: 8 Read a large block after it was freed
// sizes: 262144 1048576
// variants: first later
// toft: missed
// secure: caught SIGSEGV
#include "corpus.h"

static unsigned char *p, seen[1 << 20];

static void prepare(void)
{
    for (int i = 0; i < (is("later") ? 8 : 0); i++)
        give(take(size));
    p = take(size);
    fill(p, size, 1);
    announce_block(p);
}

static void look(void)
{
    for (size_t i = 0; i < size; i++)
        seen[i] = ((volatile unsigned char *)p)[i];
}

static void fault(void)
{
    give(p);
    look();
}

static void correct(void)
{
    look();
    give(p);
}

static enum verdict outcome(void)
{
    return left_over(seen, size, 1) ? MISSED : PREVENTED;
}
