// What malloc looks at before it hands it out costs one page fault for each page that its user writes, not one for the
// look and one for the writing: of slots that nobody had, and of medium ones whose pages have gone.
// libc: skip it may keep the pages
#include "common.h"
#include <sys/resource.h>

enum { N = 2000 };
static unsigned char *block[N];

static long faults(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_minflt;
}

// Faults of blocks of so many bytes that are written to from one end to the other, for each of their pages.
static double faults_a_page(size_t bytes)
{
    for (int i = 0; i < N; i++)
        block[i] = 0;
    long before = faults();
    for (int i = 0; i < N; i++) {
        block[i] = malloc(bytes);
        CHECK(block[i]);
        memset(block[i], 1, bytes);
    }
    double each = (double)(faults() - before) / ((double)N * bytes / 4096);
    for (int i = 0; i < N; i++)
        free(block[i]);
    return each;
}

int main(void)
{
    size_t sizes[] = { 3000, 8000, 1000 };
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 3 - round; i++) {
            double each = faults_a_page(sizes[i]);
            malloc_trim(0);
            printf("round %d, %zu bytes: %.2f faults a page\n", round, sizes[i], each);
            fflush(stdout);
            CHECK(each < 1.5);
        }
    return 0;
}
