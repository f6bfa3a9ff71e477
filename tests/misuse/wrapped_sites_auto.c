// Unnamed wrappers are found, in a program without symbols: from then on a slot that one caller has
// freed is never handed to another. What the wrapper had handed out before stays in a partition
// that no caller ever gets.
// flags: -s
// env: TOFT_WRAPPERS=auto
// run: 64 0 0
// run: 1000 0 0
// run: 64 1 0
// run: 64 2 0
// run: 1000 2 0
// run: 64 3 0
// run: 64 3 1
// run: 1000 3 2
// run: 64 3 3
// run: 1000 3 4
// timeout: 120
// libc: skip glibc gives anything to anyone
// promise: 16
#include "wrapped.h"
#include "found.h"
#include "many_sites.h"

enum { EARLY = 2000 };
static void *early[EARLY];

HELPER int was_early(uintptr_t p)
{
    for (int i = 0; i < EARLY; i++)
        if ((uintptr_t)early[i] == p)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    shape = atoi(argv[2]);
    entry = atoi(argv[3]);
    size_t size = strtoul(argv[1], NULL, 10);
    for (int i = 0; i < EARLY; i++)
        early[i] = ask(i % SITES, size);
    CHECK(statistic("found_wrappers") == 0);
    many_sizes();
    CHECK(statistic("found_wrappers") == (shape < 2 ? 1 : 2));
    /* They are freed as any other, and no caller gets them. */
    for (int i = 0; i < EARLY; i++)
        free(early[i]);
    for (int i = 0; i < 10 * EARLY; i++)
        CHECK(!was_early((uintptr_t)ask(i % SITES, size)));
    CHECK(disjoint_pairs(size) == SITES / 2);
    CHECK(statistic("found_wrappers") == (shape < 2 ? 1 : 2));
    CHECK(statistic("wrapper_sites") == statistic("found_wrappers"));
    return 0;
}
