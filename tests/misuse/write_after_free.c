// A free block is written to, at either end or in its middle. It is reported by the free with which
// the block leaves the quarantine, or by the malloc that would hand it out. With one partition that
// malloc may be of another call site: the block has left the quarantine before the write.
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
// case: write_after_free -DREUSE=take -DLEAVES=0
// case: write_after_free_other_site -DREUSE=take_another -DLEAVES=(64<<20)
// env: TOFT_PARTITIONS=1
#include "two_sites.h"

static void reuse(size_t times, size_t size)
{
    for (size_t i = 0; i < times; i++)
        free(launder(REUSE(size)));
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t size = strtoul(argv[1], NULL, 10), place = strtoul(argv[2], NULL, 10);
    unsigned char *p = launder(take(size));
    CHECK(p);
    announce_block(p);
    announce_number("place", place);
    CORRECT(if (place < size) p[place] = 1;)
    free(p);
    reuse(LEAVES / size, size);
    MISUSE(((unsigned char *)launder(p))[place] = 1;)
    reuse(100000 + LEAVES / size, size);
    return END;
}
