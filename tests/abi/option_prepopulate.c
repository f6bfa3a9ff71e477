// TOFT_MAPPINGS=populate: what is mapped has its pages, so that first touches cost no fault.
// Without the option they do. The first MiB, from which something allocates before main, has its
// pages when main begins.
// libc: skip it has no such option
// env: TOFT_RECLAIM=off
// run: none
// run: populate
#include "page_faults.h"

enum { N = 2000, SIZE = 1000, LARGE = 8 << 20, EARLY = 1 << 20 };
static unsigned char *block[N];

/* Runs before the library's own constructor, so that slabs are mapped by then. */
static void begin_early(void)
{
    CHECK(malloc(SIZE));
}
__attribute__((used, section(".preinit_array"))) static void (*const early)(void) = begin_early;

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    int asked = !strcmp(argv[1], "populate");
    if (asked)
        anew_with(argv, "TOFT_MAPPINGS", "populate");
    size_t rss = rss_bytes();
    unsigned char *large = malloc(LARGE);
    CHECK(large);
    for (int i = 0; i < N; i++)
        CHECK((block[i] = malloc(SIZE)));
    CHECK((rss_bytes() > rss + LARGE + N * SIZE - EARLY) == asked);
    long before = page_faults();
    for (int i = 0; i < N; i++)
        memset(block[i], 1, SIZE);
    for (size_t at = 0; at < LARGE; at += 4096)
        large[at] = 1;
    long faults = page_faults() - before;
    announce_number("faults", (size_t)faults);
    CHECK(asked ? faults < 50 : faults > (long)(LARGE / page_size()) / 4);
    return 0;
}
