// build: secure walls
// Freeing a large block of which the pages were only read brings nothing into memory: all of them
// are the kernel's one page of zeros, and stay that. Of those between them that were written
// nothing is left.
// promise: 14
// libc: skip it says what a free of the secure build costs
#include "page_faults.h"

enum { SIZE = 16 << 20, LIVE = 24 << 20, PAGE = 4096, SLACK = 1 << 20 };

int main(void)
{
    // What is live lets as much be kept.
    char *live = malloc(LIVE);
    CHECK(live);
    memset(launder(live), 1, LIVE);
    for (int round = 0; round < 8; round++) {
        // In every second round some pages are written to.
        int written = round % 2;
        unsigned char *p = launder(calloc(1, SIZE));
        CHECK(p);
        for (size_t at = 0; at < SIZE; at += PAGE) {
            CHECK(p[at] == 0 && p[at + PAGE - 1] == 0);
            if (written && at % (64 * PAGE) == 0)
                memset(p + at, 0xEE, PAGE);
        }
        size_t rss = rss_bytes();
        long before = page_faults();
        free(p);
        CHECK(rss_bytes() < rss + SLACK);
        CHECK(page_faults() - before < 300);
        p = launder(malloc(SIZE));
        CHECK(p);
        for (size_t at = 0; at < SIZE; at++)
            CHECK(p[at] == 0);
        free(p);
    }
    return 0;
}
