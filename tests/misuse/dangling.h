/* What hides words that a function has left on the stack. */
#include "common.h"

NOINLINE void clear_stack(void)
{
    volatile char bytes[20000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = 0;
}
