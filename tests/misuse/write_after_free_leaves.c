// A free block is written to, and its slot is not handed out again: the program only frees other
// blocks, of another call site. The write is reported when the block leaves the quarantine. A block
// of up to 128 bytes is compared as a whole, a larger one at its two ends.
// flags: -pthread
// build: full the light one does not clear what is freed
// run: 20 10 same
// run: 100 50 same
// run: 500 0 same
// run: 1000 8 same
// run: 4000 63 same
// run: 40000 0 same
// run: 100 50 cross
// run: 1000 8 cross
// expect: signal ABRT
// stderr: toft: write after free: free({p}): byte {place} of this free {size}-byte block was overwritten ({re:small|medium} slab, slot {n}, partition {n}; call site {addr})
// twin: writes before it frees
// promise: 12 30
#include "two_sites.h"

/* More than wait in a quarantine. */
enum { SMALL = 20000, LARGE = 200 };

static char *block, *others[SMALL];
static size_t size, place, count;

static void *strike(void *arg)
{
    CORRECT(block[place] = 1;)
    free(launder(block));
    MISUSE(((volatile char *)launder(block))[place] = 1;)
    for (size_t i = 0; i < count; i++)
        free(launder(others[i]));
    return arg;
}

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    size = strtoul(argv[1], NULL, 10);
    place = strtoul(argv[2], NULL, 10);
    count = size < 2000 ? SMALL : LARGE;
    for (size_t i = 0; i < count; i++)
        CHECK((others[i] = take_another(size)));
    CHECK((block = launder(take(size))));
    announce_block(block);
    announce_number("place", place);
    if (strcmp(argv[3], "cross") == 0)
        join(spawn(strike, NULL));
    else
        strike(NULL);
    _exit(END);
}
