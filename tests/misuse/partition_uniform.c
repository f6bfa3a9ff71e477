// Which partition a call site gets is as good as thrown by dice. Over 60 processes of 16 sites
// each, chi-square over the 64 partitions stays below 132, which one throw in a million exceeds.
// The pairs of sites that share one are as many as 1 in 64 makes, to five standard deviations.
// env: TOFT_ON_MISUSE=warn
// env: TOFT_PARTITIONS=64
// libc: skip it has no partitions
// timeout: 60
// promise: 17
// build: default asks with what the secure build refuses
#include "sites.h"

enum { RUNS = 60, PARTITIONS = 64, PAIRS = SITES * (SITES - 1) / 2 };

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        for (int i = 0; i < SITES; i++) {
            void *p = launder(site[i](64));
            free(p);
            free(launder(p)); /* the warning names the partition */
        }
        return 0;
    }
    static int times[PARTITIONS];
    int sharing = 0;
    for (int run = 0; run < RUNS; run++) {
        static char text[16384];
        int partition[SITES];
        CHECK(run_again("report", 2, text, sizeof text) == 0);
        char *at = text;
        for (int i = 0; i < SITES; i++) {
            CHECK((at = strstr(at, "partition ")));
            at += 10;
            partition[i] = atoi(at);
            CHECK(partition[i] >= 0 && partition[i] < PARTITIONS);
            times[partition[i]]++;
            for (int k = 0; k < i; k++)
                sharing += partition[k] == partition[i];
        }
    }
    double expected = (double)RUNS * SITES / PARTITIONS, square = 0;
    for (int i = 0; i < PARTITIONS; i++)
        square += (times[i] - expected) * (times[i] - expected) / expected;
    announce_number("square", (size_t)square);
    announce_number("sharing", (size_t)sharing);
    CHECK(square < 132);
    /* A mean of 112.5 and a deviation of 10.5. */
    CHECK(RUNS * PAIRS / PARTITIONS == 112 && sharing > 60 && sharing < 165);
    return 0;
}
