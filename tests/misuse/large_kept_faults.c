// build: secure walls
// A freed large block faults on reading and on writing, on each of its pages, at once and while its
// pages are kept for another; so does the old place of one that has moved. That pages are kept is
// asked of the kernel. What gets them is zero, though it was full, and costs no fault for each
// page.
// promise: 11 12 14
// libc: skip it may go on having what was freed
#include "faults.h"
#include "page_faults.h"

enum { SIZE = 600000, MOST = 40, ROUNDS = 200 };

static void gone(volatile unsigned char *p, size_t size)
{
    for (size_t at = 0; at < size; at += 4096)
        CHECK(faults(p + at) && faults_on_write(p + at));
    CHECK(faults(p + size - 1) && faults_on_write(p + size - 1));
}

int main(void)
{
    catch_faults();
    // What is live lets as much be kept.
    unsigned char *live = malloc(8 << 20);
    CHECK(live);
    memset(launder(live), 3, 8 << 20);
    static unsigned char *stale[ROUNDS];
    long each_most = 0;
    for (int round = 0; round < ROUNDS; round++) {
        size_t size = SIZE + (size_t)round * 1000;
        long before = page_faults();
        unsigned char *p = malloc(size);
        CHECK(p);
        for (size_t at = 0; at < size; at++)
            CHECK(p[at] == 0);
        memset(launder(p), 0xEE, size);
        long cost = page_faults() - before;
        if (round >= 8 && cost > each_most)
            each_most = cost;
        size_t rss = rss_bytes();
        free(p);
        // Kept: the program is as large as before.
        if (round >= 8)
            CHECK(rss_bytes() + (100 << 10) > rss);
        gone(p, size);
        stale[round] = p;
        for (int i = round > 50 ? round - 50 : 0; i < round; i++)
            CHECK(faults(stale[i]) && faults_on_write(stale[i] + SIZE - 1));
    }
    announce_number("faults of a block", (size_t)each_most);
    CHECK(each_most < MOST);

    unsigned char *p = malloc(SIZE);
    CHECK(p);
    memset(launder(p), 0xEE, SIZE);
    unsigned char *q = realloc(launder(p), 40 * SIZE);
    CHECK(q);
    for (size_t at = 0; at < 40 * (size_t)SIZE; at += 999)
        CHECK(q[at] == (at < SIZE ? 0xEE : 0));
    if (q != p)
        gone(p, SIZE);
    free(q);
    gone(q, 40 * (size_t)SIZE);
    CHECK(live[77] == 3);
    return 0;
}
