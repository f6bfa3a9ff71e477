// class: 29 Change by a linear overflow what the allocator believes
// sizes: 24 200 1000
// variants: zeros header
// toft: prevented
// secure: caught overflow-of-one
#include "corpus.h"

enum { LARGER = 8 };
static unsigned char *one, *other, *larger[LARGER];
static size_t apart;

static void prepare(void)
{
    take_row();
    one = row[low];
    other = row[low + 1];
    apart = (size_t)(other - one);
    for (int i = 0; i < LARGER; i++)
        larger[i] = take(3 * size + 64);
    qsort(larger, LARGER, sizeof larger[0], by_address);
    announce_block(other);
}

/* Only the bytes between the two blocks matter: what is theirs stays as it is. */
static void fault(void)
{
    size_t between = apart - size;
    if (is("zeros"))
        memset((unsigned char *)launder(one) + size, 0, between);
    else
        memcpy((unsigned char *)launder(other) - 16, (unsigned char *)launder(larger[LARGER / 2]) - 16, 16);
    give(one);
    give(other);
    /* One that took its size from before it now comes back as a larger one. */
    other = take(3 * size + 64);
}

static void correct(void)
{
    give(one);
    give(other);
    other = take(3 * size + 64);
}

/* What the program itself has in the blocks may be harmed, as in any overflow; the allocator must
 * not be. */
static enum verdict outcome(void)
{
    int over = 0;
    for (size_t i = 0; i < in_row; i++)
        if (i != low && i != low + 1)
            over |= row[i] < other + 3 * size + 64 && other < row[i] + size;
    if (over)
        return MISSED;
    for (size_t i = 0; i < in_row; i++)
        if (i != low && i != low + 1)
            give(row[i]);
    give(other);
    for (int i = 0; i < LARGER; i++)
        give(larger[i]);
    return of_the_heap(NULL, 0);
}
