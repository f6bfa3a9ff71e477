// A free block is written to, at either end or in its middle. It is reported by the free with which
// the block leaves the quarantine, or by the malloc that would hand it out.
// build: full the light one does not clear what is freed
// run: 16 0
// run: 16 15
// run: 100 50
// run: 100 110
// run: 1000 999
// run: 5000 2500
// run: 40000 39999
// expect: signal ABRT
// stderr: toft: write after free: {re:malloc|free}({p}): byte {place} of this free {size}-byte block was overwritten ({re:small|medium} slab, slot {n}, partition {n}; call site {addr})
// twin: writes before it frees
// promise: 12 30
#include "one_site.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t size = strtoul(argv[1], NULL, 10), place = strtoul(argv[2], NULL, 10);
    unsigned char *p = launder(allocate(size));
    CHECK(p);
    announce_block(p);
    announce_number("place", place);
    CORRECT(if (place < size) p[place] = 1;)
    free(p);
    MISUSE(((unsigned char *)launder(p))[place] = 1;)
    for (int i = 0; i < 100000; i++)
        free(launder(allocate(size)));
    return END;
}
