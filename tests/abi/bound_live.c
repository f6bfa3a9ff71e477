// Law 4, live blocks: what a size is rounded up to, and the pages that a few blocks keep. No page
// stays that no live block lies on.
// env: TOFT_PARTITIONS=1
// env: TOFT_DECAY=20
// env: TOFT_RECLAIM=thread
// libc: skip it has other bounds
#include "bound.h"

/* Sizes that are rounded up by most. */
static const size_t rounded[] = {257, 1025, 2049, 4097, 8193, 16385};
enum { KINDS = sizeof rounded / sizeof *rounded, MOST = 1 << 16 };
static char *block[KINDS][MOST];

/* The least distance of two blocks that were allocated in turn. The secure build has more size
 * classes, and so smaller slots. */
static size_t slot_in_use(char **blocks, size_t n)
{
    size_t least = SIZE_MAX;
    for (size_t i = 1; i < n; i++)
        if (blocks[i] > blocks[i - 1] && (size_t)(blocks[i] - blocks[i - 1]) < least)
            least = (size_t)(blocks[i] - blocks[i - 1]);
    return least;
}

static void rounding(void)
{
    struct bound b = {0}, touched = {0};
    size_t waste = 0, slabs = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        size_t most = slot_of(rounded[kind]), n = 8 * MIB / most;
        for (size_t i = 0; i < n; i++) {
            CHECK(block[kind][i] = malloc(rounded[kind]));
            memset(block[kind][i], 1, rounded[kind]);
        }
        size_t slot = slot_in_use(block[kind], n);
        CHECK(slot >= rounded[kind] && slot <= most);
        /* One page more for each slab, which need not end with one. */
        b.live += n * most + slabs_for(n, most) * page_size();
        touched.live += n * slot + slabs_for(n, slot) * page_size();
        waste += n * (slot - rounded[kind]);
        b.claims += claim_of(most);
        slabs += slabs_for(n, most);
    }
    b.metadata = touched.metadata = descriptors_of(slabs) + heap_of(1);
    /* What is claimed was never touched. */
    within("rounding", b);
    driven("rounding", touched, waste);
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < 8 * MIB / slot_of(rounded[kind]); i++)
            free(block[kind][i]);
    b.live = 0;
    comes_within("rounding, freed", b);
}

/* A block of each page stays, which is one in sixteen; then of every second page none. */
static void pinning(size_t slabs_before)
{
    enum { SIZE = 256, N = MOST };
    for (int i = 0; i < N; i++) {
        CHECK(block[0][i] = malloc(SIZE));
        memset(block[0][i], 1, SIZE);
    }
    size_t kept = 0;
    for (int i = 0; i < N; i++)
        if ((uintptr_t)block[0][i] % page_size()) {
            free(block[0][i]);
            block[0][i] = NULL;
        } else
            kept++;
    struct bound b = {0};
    for (int kind = 0; kind < KINDS; kind++)
        b.claims += claim_of(slot_of(rounded[kind]));
    b.claims += claim_of(SIZE);
    b.metadata = descriptors_of(slabs_before + slabs_for(N, SIZE)) + heap_of(1);
    b.live = kept * page_size();
    comes_within("pinned", b);
    struct bound touched = b;
    touched.claims = 0;
    driven("pinned", touched, b.live - kept * SIZE);
    size_t left = 0;
    for (int i = 0; i < N; i++)
        if (block[0][i] && (uintptr_t)block[0][i] / page_size() % 2) {
            free(block[0][i]);
            block[0][i] = NULL;
        } else if (block[0][i])
            left++;
    CHECK(left * 3 < kept * 2);
    b.live = left * page_size();
    comes_within("every second page is free", b);
    for (int i = 0; i < N; i++)
        free(block[0][i]);
    b.live = 0;
    comes_within("all is free", b);
}

int main(void)
{
    memset(block, 0, sizeof block);
    bound_begin();
    rounding();
    size_t slabs = 0;
    for (int kind = 0; kind < KINDS; kind++)
        slabs += slabs_for(8 * MIB / slot_of(rounded[kind]), slot_of(rounded[kind]));
    pinning(slabs);
    return 0;
}
