/* One call site for all blocks. */
#include "common.h"

NOINLINE void *allocate(size_t size)
{
    void *p = malloc(size);
    NO_TAIL_CALL();
    return p;
}
