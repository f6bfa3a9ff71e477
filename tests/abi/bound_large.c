// build: default freed large blocks wait
// Law 4, large blocks, without a reclaimer: 32 MiB of free ones are kept, and no more than a
// mebibyte and what is live. All together is no more than a quarter above what was ever live, slack
// included.
// env: TOFT_PARTITIONS=1
// env: TOFT_RECLAIM=off
// libc: skip it has other bounds
#include "bound.h"

enum { N = 40, KEEP = 32 << 20 };
static const size_t SIZE = 3 << 20;
static char *block[N];

static void get(int i, size_t size)
{
    CHECK(block[i] = malloc(size));
    memset(block[i], 1, size);
}

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

int main(void)
{
    bound_begin();
    /* A descriptor of 64 bytes for 64 KiB, of extents of up to four times the requested size. */
    struct bound b = {.metadata = heap_of(1) + pages_of_run(2 * N * 4 * SIZE / 1024)};
    size_t live = 0, peak = N * SIZE;
    for (int i = 0; i < N; i++, live += SIZE)
        get(i, SIZE);
    b.live = live;
    within("all is live", b);
    for (int i = 0; i < N; i++) {
        free(block[i]);
        live -= SIZE;
        b.live = live;
        b.kept = min(KEEP, MIB + live);
        within("one after the other is freed", b);
        struct bound least = b;
        least.metadata = 0;
        if (i == N / 2)
            driven("half is free", least, b.kept);
    }
    /* Used again for less: what is too much of a block stays with it, up to twice what it is used for. */
    b.kept = 0;
    live = 0;
    for (int i = 0; i < N; i++, live += SIZE)
        get(i, SIZE);
    enum { AGAIN = 7 };
    size_t less = SIZE / 2 + page_size(), slack = 0, freed = AGAIN * SIZE;
    for (int i = 0; i < AGAIN; i++)
        free(block[i]);
    for (int i = 0; i < AGAIN; i++) {
        get(i, less);
        live += less - SIZE;
        slack += less;
        freed -= SIZE;
        b.live = live;
        b.kept = min(slack + min(KEEP, freed), peak + peak / 4 - live);
        within("used again", b);
    }
    struct bound least = {.live = live, .kept = slack};
    driven("used again", least, slack);
    /* Longer ones than all that is kept, which is of use for a part of them: the peak is not passed by more than a
     * quarter. */
    for (int i = AGAIN; i < AGAIN + 8; i++)
        free(block[i]);
    live -= 8 * SIZE;
    for (int i = AGAIN; i < AGAIN + 8; i++)
        block[i] = NULL;
    for (int i = AGAIN; i < AGAIN + 3; i++) {
        get(i, 4 * SIZE);
        live += 4 * SIZE;
        peak = live > peak ? live : peak;
        b.live = live;
        b.kept = min(slack + KEEP, peak + peak / 4 - live);
        within("longer ones", b);
    }
    for (int i = 0; i < N; i++)
        free(block[i]);
    b.live = 0;
    b.kept = MIB;
    within("all is free", b);
    /* Used again for far less: what is too much serves the next requests. */
    enum { LONG = 7 << 20, FAR_LESS = 2100 << 10, FREE = 3 * LONG };
    for (int i = 0; i < 10; i++)
        get(i, LONG);
    for (int i = 0; i < 3; i++)
        free(block[i]);
    for (int i = 0; i < 6; i++) {
        get(i < 3 ? i : 7 + i, FAR_LESS);
        b.live = 7 * LONG + (size_t)(i + 1) * FAR_LESS;
        b.kept = FREE - (size_t)(i + 1) * FAR_LESS;
        within("used again for far less", b);
    }
    return 0;
}
