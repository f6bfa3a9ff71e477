// Which slot of a group of 64 comes first, and which comes next, is anybody's guess. The sum of squared
// deviations over 63 degrees of freedom exceeds 130 once in a million times.
// build: hardened the default one takes the lowest
// libc: skip glibc takes the lowest
// promise: 13 19
#include "common.h"

enum { GROUPS = 4000, SLOTS = 64 };

static double deviation(const unsigned *counts)
{
    double sum = 0;
    for (int i = 0; i < SLOTS; i++)
        sum += ((double)counts[i] - (double)GROUPS / SLOTS) * ((double)counts[i] - (double)GROUPS / SLOTS) /
               ((double)GROUPS / SLOTS);
    return sum;
}

int main(void)
{
    static unsigned counts[SLOTS][SLOTS], deltas[2 * SLOTS];
    for (int group = 0; group < GROUPS; group++) {
        uintptr_t page = 0, before = 0;
        for (int i = 0; i < SLOTS; i++) {
            uintptr_t p = (uintptr_t)malloc(63);
            CHECK(p && p % 64 == 0);
            if (i == 0)
                page = p / 4096;
            CHECK(p / 4096 == page);
            counts[i][p / 64 % SLOTS]++;
            if (i == 1)
                deltas[SLOTS + (intptr_t)(p - before) / 64]++;
            before = p;
        }
    }
    for (int i = 0; i < SLOTS; i++)
        CHECK(deviation(counts[i]) < 130);
    unsigned values = 0;
    for (int i = 0; i < 2 * SLOTS; i++)
        values += deltas[i] != 0;
    CHECK(values >= 100);
    return 0;
}
