// The address of the first blocks differs from run to run in at least 28 bits, small, medium and
// large.
// timeout: 60
// libc: skip the break's ASLR is what it is
// promise: 3 19
#include "common.h"

enum { RUNS = 64 };
static const size_t sizes[3] = {64, 5000, 300000};

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        for (int i = 0; i < 3; i++)
            printf("%lx ", (unsigned long)malloc(sizes[i]));
        return 0;
    }
    uintptr_t first[3] = {0}, varying[3] = {0};
    for (int run = 0; run < RUNS; run++) {
        char text[256], *at = text;
        CHECK(run_again("report", 1, text, sizeof text) == 0);
        for (int i = 0; i < 3; i++) {
            uintptr_t p = strtoul(at, &at, 16);
            CHECK(p);
            if (run == 0)
                first[i] = p;
            varying[i] |= p ^ first[i];
        }
    }
    for (int i = 0; i < 3; i++) {
        announce_number("bits", (size_t)__builtin_popcountl(varying[i]));
        CHECK(__builtin_popcountl(varying[i]) >= 28);
    }
    return 0;
}
