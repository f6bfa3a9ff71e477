// The byte before a block is written, and the block is freed, or the one before it.
// build: secure the default one does not look
// run: 63
// run: 1000
// run: 2000
// expect: signal ABRT
// twin: writes the first byte
// promise: 8
// case: underflow_one_byte -DFREED=p
// stderr: toft: heap underflow: free({p}): the byte before this {size}-byte block was overwritten ({re:small|medium} slab, slot {n}, partition {n}; call site {addr})
// case: underflow_neighbour -DFREED=before
// stderr: toft: heap overflow: free({p}): byte {last} behind this {size}-byte block was overwritten ({re:small|medium} slab, slot {n}, partition {n}; call site {addr})
#include "common.h"

enum { BLOCKS = 64 };

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    unsigned char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        CHECK((blocks[i] = launder(malloc(size))));
    /* Two neighbours: no two blocks are closer. */
    unsigned char *p = NULL;
    size_t closest = SIZE_MAX;
    for (int i = 0; i < BLOCKS; i++)
        for (int j = 0; j < BLOCKS; j++)
            if (blocks[j] > blocks[i] && (size_t)(blocks[j] - blocks[i]) < closest) {
                closest = (size_t)(blocks[j] - blocks[i]);
                p = blocks[j];
            }
    CHECK(closest < 2 * size + 16);
    unsigned char *before = p - closest;
    announce_block(FREED);
    announce_number("last", (size_t)(p - before) - 1 - size);
    CORRECT(p[0] = 1;)
    /* Neither what is there nor zero, which would be a free block's. */
    MISUSE(p[-1] ^= p[-1] == 0x5A ? 0x33 : 0x5A;)
    free(launder(FREED));
    return END;
}
