// What malloc checks before it hands it out costs one page fault for each page that its user
// writes, not one for the check and one for the writing. This holds for slots never handed out, and
// for medium ones whose pages have gone. Of large ones among these the pages that are not written
// to cost none.
// libc: skip it may keep the pages
#include "page_faults.h"

enum { N = 2000, BYTES = 16 << 20 };
static unsigned char *block[N];

// Faults of blocks of `bytes` bytes whose first `written` are written to, for each page that is.
static double faults_a_page(size_t bytes, size_t written)
{
    int count = BYTES / bytes < N ? BYTES / bytes : N;
    memset(block, 0, sizeof block);
    long before = page_faults();
    for (int i = 0; i < count; i++) {
        block[i] = malloc(bytes);
        CHECK(block[i]);
        memset(block[i], 1, written);
    }
    double pages = written < 4096 ? 1 : written / 4096.0;
    double each = (double)(page_faults() - before) / (count * pages);
    for (int i = 0; i < count; i++)
        free(block[i]);
    purge_all();
    return each;
}

int main(void)
{
    // How much of them is written; how often they are had; and what that may cost.
    struct { size_t bytes, written; int rounds; double most; } all[] = {
        { 3000, 3000, 2, 1.5 },
        { 8000, 8000, 2, 1.5 },
        { 20000, 20000, 2, 1.5 },
        { 60000, 60000, 2, 1.3 },
        // The first, that of the canary, and one that is shared with another block.
        { 60000, 1, 2, 4 },
        { 100000, 1, 2, 4 },
        { 1000, 1000, 1, 1.5 },
    };
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            if (round >= all[i].rounds)
                continue;
            double each = faults_a_page(all[i].bytes, all[i].written);
            printf("round %d, %zu of %zu bytes: %.2f faults a page\n", round, all[i].written, all[i].bytes, each);
            fflush(stdout);
            CHECK(each < all[i].most);
        }
    return 0;
}
