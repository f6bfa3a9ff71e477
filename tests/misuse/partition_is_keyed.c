// build: default the secure one takes no TOFT_ON_MISUSE=warn
// Which sites share a partition is a secret of the process. The assignment of 16 sites differs from
// run to run.
// env: TOFT_ON_MISUSE=warn
// env: TOFT_PARTITIONS=64
// libc: skip it has no partitions
// timeout: 60
// promise: 3 17
#include "sites.h"

enum { RUNS = 24 };

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
    static int partition[RUNS][SITES];
    for (int run = 0; run < RUNS; run++) {
        static char text[16384];
        CHECK(run_again("report", 2, text, sizeof text) == 0);
        char *at = text;
        for (int i = 0; i < SITES; i++) {
            CHECK((at = strstr(at, "partition ")));
            partition[run][i] = atoi(at += 10);
            CHECK(partition[run][i] >= 0 && partition[run][i] < 64);
        }
    }
    for (int a = 0; a < RUNS; a++)
        for (int b = 0; b < a; b++)
            CHECK(memcmp(partition[a], partition[b], sizeof partition[a]) != 0);
    return 0;
}
