// Frees a block twice, in a function that another one calls: the report names these and main, and
// none of the library's, where that is linked into the program. With an argument it frees the block
// once.
#include "common.h"

NOINLINE void inner(char *block, int twice)
{
    free(block);
    if (twice)
        free(block);
    NO_TAIL_CALL();
}

NOINLINE void outer(char *block, int twice)
{
    inner(block, twice);
    NO_TAIL_CALL();
}

int main(int argc, char **argv)
{
    (void)argv;
    outer(launder(malloc(100)), argc == 1);
    return 0;
}
