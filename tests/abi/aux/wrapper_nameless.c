// A stripped library: a function without a name does the work of two wrappers, and of a function
// that is none.
// flags: -O1 -s -fno-optimize-sibling-calls
#include "common.h"

NOINLINE void *work(size_t size)
{
    char *p = malloc(size);
    CHECK(p);
    p[0] = 1;
    return p;
}

void *wrap_one(size_t size)
{
    void *p = work(size);
    NO_TAIL_CALL();
    return p;
}

void *wrap_two(size_t size)
{
    void *p = work(2 * size);
    NO_TAIL_CALL();
    return p;
}
