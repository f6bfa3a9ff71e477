// build: default the secure one takes no TOFT_ON_MISUSE=warn
// Which sites share a partition is a secret of the process. The assignment of 16 sites differs from
// run to run, and the distance between blocks of two sites differs in at least 20 bits.
// env: TOFT_ON_MISUSE=warn
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
            dprintf(2, "at %lx\n", (unsigned long)p);
            free(p);
            free(launder(p)); /* the warning names the partition */
        }
        return 0;
    }
    static int partition[RUNS][SITES];
    static uintptr_t address[RUNS][SITES];
    for (int run = 0; run < RUNS; run++) {
        static char text[16384];
        CHECK(run_again("report", 2, text, sizeof text) == 0);
        char *at = text;
        for (int i = 0; i < SITES; i++) {
            CHECK((at = strstr(at, "at ")));
            address[run][i] = strtoul(at + 3, NULL, 16);
            CHECK((at = strstr(at, "partition ")));
            partition[run][i] = atoi(at + 10);
            CHECK(partition[run][i] >= 0 && partition[run][i] < 64);
        }
    }
    for (int a = 0; a < RUNS; a++)
        for (int b = 0; b < a; b++)
            CHECK(memcmp(partition[a], partition[b], sizeof partition[a]) != 0);
    uintptr_t varying = 0;
    for (int run = 1; run < RUNS; run++)
        varying |= (address[run][1] - address[run][0]) ^ (address[0][1] - address[0][0]);
    announce_number("bits", (size_t)__builtin_popcountl(varying));
    CHECK(__builtin_popcountl(varying) >= 20);
    return 0;
}
