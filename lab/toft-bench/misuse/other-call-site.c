// class: 27 Be given an address that another call site has freed
// sizes: 64 1000
// variants: half drained wrapper
// repeat: 20
// toft: prevented 9/20
// toft variant=wrapper: missed
// secure: prevented
// secure variant=wrapper: missed
#include "corpus.h"

/* In the default build with its first 8 partitions, one run in 8 gives both sites the same one: by
   chance 12 of 20 runs once in a million. */
enum { BLOCKS = 4000 };
static uintptr_t first[BLOCKS], second[BLOCKS];
static size_t shared;

/* The one function that a program allocates by. */
HELPER unsigned char *wrapper(size_t n)
{
    unsigned char *p = take(n);
    NO_TAIL_CALL();
    return p;
}

HELPER unsigned char *one_site(void)
{
    unsigned char *p = is("wrapper") ? wrapper(size) : (unsigned char *)ALLOCATE(size);
    NO_TAIL_CALL();
    return p;
}

HELPER unsigned char *other_site(void)
{
    unsigned char *p = is("wrapper") ? wrapper(size) : (unsigned char *)ALLOCATE(size);
    NO_TAIL_CALL();
    return p;
}

static void prepare(void)
{
    for (int i = 0; i < BLOCKS; i++)
        CHECK((first[i] = (uintptr_t)one_site()));
    for (int i = 0; i < BLOCKS; i++)
        if (!is("half") || i % 2)
            give((void *)first[i]);
    qsort(first, BLOCKS, sizeof first[0], by_address);
}

static void fault(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        CHECK((second[i] = (uintptr_t)other_site()));
        shared += bsearch(&second[i], first, BLOCKS, sizeof first[0], by_address) != NULL;
    }
}

static void correct(void)
{
    give(other_site());
}

static enum verdict outcome(void)
{
    announce_number("share", 100 * shared / BLOCKS);
    return shared ? MISSED : PREVENTED;
}
