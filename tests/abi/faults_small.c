// A page of small slots that has gone back costs malloc one fault when it is used again: it is
// written to first, and looked at then. To look first would bring the kernel's page of zeros, which
// the first write replaces by another fault.
// libc: skip it may keep the pages
#include "page_faults.h"

enum { BYTES = 8 << 20, MOST = BYTES / 100 };
static unsigned char *block[MOST];

static int compare(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)*(unsigned char *const *)a, y = (uintptr_t)*(unsigned char *const *)b;
    return x < y ? -1 : x > y;
}

// Pages on which blocks begin.
static long pages(int count)
{
    qsort(block, count, sizeof *block, compare);
    long pages = 0;
    for (int i = 0; i < count; i++)
        pages += i == 0 || (uintptr_t)block[i] >> 12 != (uintptr_t)block[i - 1] >> 12;
    return pages;
}

// Faults for each page of blocks of `bytes` bytes, each of which is written to. One of 64 stays, so
// that their slabs do.
static double faults_a_page(size_t bytes)
{
    int count = BYTES / bytes;
    long before = page_faults();
    for (int i = 0; i < count; i++) {
        block[i] = malloc(bytes);
        CHECK(block[i]);
        block[i][0] = 1;
    }
    long after = page_faults();
    double each = (double)(after - before) / pages(count);
    for (int i = 0; i < count; i++)
        if (i % 64)
            free(block[i]);
    purge_all();
    return each;
}

int main(void)
{
    // In time for their pages to be there: what is counted is malloc's.
    memset(block, 1, sizeof block);
    qsort(block, MOST, sizeof *block, compare);
    size_t sizes[] = { 100, 230, 500, 900 };
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 4; i++) {
            double each = faults_a_page(sizes[i]);
            printf("round %d, %zu bytes: %.2f faults a page\n", round, sizes[i], each);
            fflush(stdout);
            CHECK(each < 1.2);
        }
    return 0;
}
