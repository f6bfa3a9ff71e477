// build: hardened walls
// What a large block had in memory is the system's again when free returns.
// promise: 14
// libc: skip its threshold for mappings moves
#include "common.h"

int main(void)
{
    enum { SIZE = 64 << 20 };
    free(malloc(1000));
    for (int i = 0; i < 5; i++) {
        size_t rss = rss_bytes();
        char *p = malloc(SIZE);
        CHECK(p);
        memset(launder(p), 1, SIZE);
        CHECK(rss_bytes() > rss + SIZE - (1 << 20));
        free(launder(p));
        CHECK(rss_bytes() < rss + (1 << 20));
    }
    return 0;
}
