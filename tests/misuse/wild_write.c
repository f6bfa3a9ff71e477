// A write that hits a reserved slot, by a pointer that was never a block's: named when a block
// beside it is freed.
// run: 15
// run: 63
// run: 1000
// run: 3000
// build: secure the default one reserves no slots
// expect: signal ABRT
// stderr: toft: wild write: free({p}): byte {place} of this reserved {slot}-byte slot, which nobody has, was overwritten ({re:small|medium} slab, slot {n}, partition {n}; call site {addr})
// libc: skip it reserves no slots
// twin: writes to a block
// promise: 7
#include "common.h"

enum { BLOCKS = 3000 };

static int by_address(const void *a, const void *b)
{
    const uintptr_t *p = a, *q = b;
    return (*p > *q) - (*p < *q);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10), slot = SIZE_MAX;
    static uintptr_t blocks[BLOCKS];
    uintptr_t last = 0;
    for (int i = 0; i < BLOCKS; i++)
        CHECK((last = blocks[i] = (uintptr_t)launder(malloc(size))));
    qsort(blocks, BLOCKS, sizeof *blocks, by_address);
    for (int i = 1; i < BLOCKS; i++)
        slot = blocks[i] - blocks[i - 1] < slot ? blocks[i] - blocks[i - 1] : slot;
    /* A hole of one slot, in a slab that is full and that was begun here. */
    unsigned char *before = NULL;
    int slab = slot <= 1024 ? 16 : 19;
    for (int i = 1; i < BLOCKS && !before; i++)
        if (blocks[i] - blocks[i - 1] == 2 * slot && blocks[i] >> slab != last >> slab &&
            blocks[i] >> slab != blocks[0] >> slab)
            before = (unsigned char *)blocks[i - 1];
    CHECK(before);
    unsigned char *hole = before + slot;
    size_t place = slot / 2 + 3;
    announce("p", hole);
    announce_number("slot", slot);
    announce_number("place", place);
    CORRECT(before[size / 2] ^= 0x20;)
    MISUSE(((unsigned char *)launder(hole))[place] ^= 0x20;)
    free(before);
    return END;
}
