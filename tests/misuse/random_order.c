// Which slot of a group of 64 comes first, and which comes next, is anybody's guess: each place of
// the order has each slot equally often. Of 64 sums of squared deviations over 63 degrees of
// freedom one exceeds 150 less than once in two million runs. It would notice an order that is the
// lowest first in one group of 32.
// build: secure the default one takes the lowest
// libc: skip glibc takes the lowest
// promise: 13 19
#include "slabs.h"

enum { GROUPS = 8000, GROUP = 64 };

static unsigned counts[GROUP][GROUP], lowest_first[GROUP][GROUP], deltas[2 * GROUP];

static void count(const uintptr_t *group, int number)
{
    for (int i = 0; i < GROUP; i++) {
        size_t slot = group[i] / 64 % GROUP;
        counts[i][slot]++;
        lowest_first[i][number % 32 ? slot : (size_t)i]++;
    }
    deltas[GROUP + (intptr_t)(group[1] - group[0]) / 64]++;
}

int main(void)
{
    int groups = 0, in_group = 0;
    uintptr_t group[GROUP], page = 0;
    while (groups < GROUPS) {
        uintptr_t p = (uintptr_t)take(63);
        CHECK(p && p % 64 == 0);
        if (p / 4096 != page) {
            /* Those with a reserved slot are shorter. */
            CHECK(in_group == 0 || in_group >= GROUP - 3);
            if (in_group == GROUP)
                count(group, groups++);
            in_group = 0;
            page = p / 4096;
        }
        CHECK(in_group < GROUP);
        group[in_group++] = p;
    }
    double most = 0, biased = 0;
    for (int i = 0; i < GROUP; i++) {
        double sum = chi_square_uniform(counts[i], GROUP);
        most = sum > most ? sum : most;
        sum = chi_square_uniform(lowest_first[i], GROUP);
        biased = sum > biased ? sum : biased;
    }
    announce_number("most", (size_t)most);
    announce_number("biased", (size_t)biased);
    CHECK(most < 150);
    CHECK(biased > 150);
    unsigned values = 0;
    for (int i = 0; i < 2 * GROUP; i++)
        values += deltas[i] != 0;
    CHECK(values >= 100);
    return 0;
}
