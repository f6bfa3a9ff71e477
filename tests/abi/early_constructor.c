// Allocation before main: from .preinit_array and from the constructors of the program, all before
// any promise of the loader that an allocator's own constructor ran first; the blocks live on.
// promise: 24 25
// musl: skip does not run .preinit_array
#include "common.h"

static unsigned char *preinit_block, *first_block;

static void preinit(void)
{
    preinit_block = calloc(1, 1000);
    if (!preinit_block)
        abort();
    memset(preinit_block, 3, 1000);
    free(malloc(200000));
}

/* .preinit_array runs before the constructors of every library, a preloaded one too. */
__attribute__((section(".preinit_array"), used)) static void (*const in_preinit)(void) = preinit;

__attribute__((constructor(101))) static void first(void)
{
    first_block = malloc(300000);
    if (!first_block)
        abort();
    memset(first_block, 4, 300000);
    preinit_block = realloc(preinit_block, 5000);
}

int main(void)
{
    CHECK(preinit_block && first_block);
    for (int i = 0; i < 1000; i++)
        CHECK(preinit_block[i] == 3);
    for (int i = 0; i < 300000; i++)
        CHECK(first_block[i] == 4);
    CHECK(malloc_usable_size(preinit_block) >= 5000);
    free(preinit_block);
    free(first_block);
    return 0;
}
