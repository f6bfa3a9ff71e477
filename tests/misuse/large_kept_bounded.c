// build: secure walls
// What is kept of freed large blocks is bounded: no more than a mebibyte and what is live, all
// together no more than an eighth above what was ever live. Nothing is kept after a purge or
// when the time has passed. Of blocks that were not touched nothing is kept or brought into memory.
// promise: 14
// env: TOFT_RECLAIM=off
// libc: skip its threshold for mappings moves
#include "common.h"

enum { SIZE = 64 << 20, N = 32, EACH = 2 << 20, SLACK = 2 << 20 };
static char *block[N];

static void get(int i, size_t size)
{
    CHECK(block[i] = malloc(size));
    memset(launder(block[i]), 1, size);
}

int main(void)
{
    free(malloc(1000));
    // Nothing is live.
    for (int i = 0; i < 5; i++) {
        size_t rss = rss_bytes();
        char *p = malloc(SIZE);
        CHECK(p);
        memset(launder(p), 1, SIZE);
        CHECK(rss_bytes() > rss + SIZE - (1 << 20));
        free(launder(p));
        CHECK(rss_bytes() < rss + SLACK);
    }
    // It was not touched.
    size_t rss = rss_bytes();
    for (int i = 0; i < 200; i++) {
        char *p = malloc(SIZE);
        CHECK(p);
        free(launder(p));
        CHECK(rss_bytes() < rss + SLACK);
    }
    // As many blocks are freed one after the other.
    for (int i = 0; i < N; i++)
        get(i, EACH);
    size_t full = rss_bytes();
    for (int i = 0; i < N; i++) {
        free(block[i]);
        size_t live = (size_t)(N - 1 - i) * EACH;
        CHECK(rss_bytes() < rss + 2 * live + (1 << 20) + SLACK);
        if (i < N / 2)
            CHECK(rss_bytes() + SLACK > full);
    }
    // Blocks of other sizes use what is kept, or it goes.
    for (int i = 0; i < N; i++)
        get(i, EACH);
    for (int i = 0; i < N / 2; i++)
        free(block[i]);
    for (int i = 0; i < 3; i++)
        get(i, 10 << 20);
    CHECK(rss_bytes() < rss + (size_t)N * EACH * 9 / 8 + SLACK);
    for (int i = 0; i < 3; i++)
        free(block[i]);
    // Asked for.
    size_t kept = rss_bytes();
    purge_all();
    size_t live = (size_t)N / 2 * EACH;
    CHECK(kept > rss + live + 4 * SLACK);
    CHECK(rss_bytes() < rss + live + SLACK);
    for (int i = N / 2; i < N; i++)
        free(block[i]);
    CHECK(rss_bytes() < rss + (1 << 20) + SLACK);
    return 0;
}
