// TOFT_QUARANTINE makes the quarantine smaller: a block comes back long before as many others of
// its class were freed as stand in line where nothing is set, which `quarantine_delay.c` holds.
// build: hardened the default one has none
// env: TOFT_QUARANTINE=4k
// libc: skip glibc hands out what was freed last
#include "common.h"

enum { SIZE = 63, LINE = 16384 / (SIZE + 1), TRIALS = 1000 };

NOINLINE void *allocate(void)
{
    void *p = malloc(SIZE);
    NO_TAIL_CALL();
    return p;
}

int main(void)
{
    size_t least = SIZE_MAX;
    for (int trial = 0; trial < TRIALS; trial++) {
        void *p = allocate(), *q;
        CHECK(p);
        free(p);
        size_t frees = 0;
        while ((q = launder(allocate())) != launder(p)) {
            CHECK(q && frees < 4000000);
            free(q);
            frees++;
        }
        free(q);
        if (frees < least)
            least = frees;
    }
    announce_number("least", least);
    CHECK(least < LINE / 2);
    return 0;
}
