// More call sites than partitions: those that come when all are given out share, that is said, and
// those that came before still have theirs alone.
// env: TOFT_PARTITIONS=exact:4096
// run: 4096
// libc: skip it has no partitions
// promise: 15
// case: sites_exact_merged -DSLAB=0
// build: default a slab is as long as its slots
// case: sites_exact_merged_secure -DSLAB=65536
// build: secure a slab has 64 KiB
#include "many_sites.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    long partitions = atol(argv[1]);
    CHECK(statistic("partitions") == partitions);
    CHECK(statistic("merged_sites") == 0);
    static uintptr_t block[MANY_SITES];
    for (int i = 0; i < MANY_SITES; i++)
        block[i] = (uintptr_t)at_site(i, 64);
    /* One is unowned and a 64th is for those that share. */
    long own = partitions - 1 - partitions / 64;
    CHECK(statistic("own_sites") == own);
    long merged = statistic("merged_sites");
    CHECK(merged >= MANY_SITES - own);
    CHECK(merged < MANY_SITES - own + 100);
    /* Each has its slab again, and the first ones share their pages with no other. */
    for (int i = 0; i < MANY_SITES; i++)
        CHECK(SLAB == 0 || (uintptr_t)at_site(i, 64) - block[i] + SLAB < 2 * SLAB);
    enum { FIRST = 3900 };
    for (int i = 0; i < FIRST; i++)
        for (int j = i + 1; j < MANY_SITES; j++)
            CHECK(block[i] >> 12 != block[j] >> 12);
    CHECK(statistic("merged_sites") == merged);
    return 0;
}
