/* What it takes for a wrapper to be found: each site asks for many sizes, in turn. */
#include "pairs.h"

HELPER void many_sizes(void)
{
    for (int round = 0; round < 40; round++)
        for (size_t size = 16; size < 1500; size += 48)
            for (int n = 0; n < SITES; n++)
                free(ask(n, size));
}
