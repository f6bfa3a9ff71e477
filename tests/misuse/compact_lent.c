// A block was freed, and compaction has given its memory to a block of another slab: what its
// address shows is that block. To free it again is a double free, and the other block is none the
// worse.
// build: default the secure one shares no pages
// promise: 4 28
// env: TOFT_COMPACT=1
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// libc: skip it has no compaction
// twin: frees the block that is live
#include "../compact.h"

enum { N = 20000, SIZE = 256 };
static uint64_t *block[N], *gone[N];

int main(void)
{
    struct rng r = {5};
    for (uint64_t i = 0; i < N; i++) {
        CHECK(block[i] = malloc(SIZE));
        mark(block[i], SIZE, i);
    }
    for (int i = 0; i < N; i++)
        if (rng_below(&r, 100) < 85) {
            gone[i] = launder(block[i]);
            free(block[i]);
            block[i] = NULL;
        }
    CHECK(compact() != 0);
    for (uint64_t i = 0; i < N; i++)
        for (uint64_t j = 0; gone[i] && j < N; j++)
            if (block[j] && is_marked(gone[i], SIZE, j)) {
                announce("p", gone[i]);
                announce_number("size", SIZE);
                CORRECT(free(block[j]);)
                MISUSE(free(launder(gone[i]));)
                return END;
            }
    CHECK(!"no block shows through another");
}
