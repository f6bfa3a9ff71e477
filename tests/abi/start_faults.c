// A small process has few page faults more than with the C library's malloc. What the start writes
// to is on few pages. No page is read first that is then written. The code that it runs is side by
// side. The least of some processes counts, because faults depend on where things are.
// build: default the secure builds have more to set up
// libc: skip counts Toft's faults
// musl: skip the library is linked there, not preloaded
// aarch64: skip qemu's faults are its own
#include "common.h"
#include <sys/resource.h>

enum { PROCESSES = 12, BLOCKS = 60, MORE_MOST = 29 };

static long faults(void)
{
    long least = 1 << 20;
    for (int i = 0; i < PROCESSES; i++) {
        char text[64];
        CHECK(run_again("work", 1, text, sizeof text) == 0);
        long now = atol(text);
        CHECK(now > 0);
        least = now < least ? now : least;
    }
    return least;
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        for (int i = 0; i < BLOCKS; i++) {
            size_t size = (size_t)16 << i % 6;
            char *block = launder(malloc(size));
            CHECK(block);
            memset(block, 1, size);
        }
        struct rusage used;
        CHECK(getrusage(RUSAGE_SELF, &used) == 0);
        printf("%ld\n", used.ru_minflt);
        return 0;
    }
    long with = faults();
    CHECK(unsetenv("LD_PRELOAD") == 0);
    long without = faults();
    printf("%ld faults, %ld without the library\n", with, without);
    CHECK(with <= without + MORE_MOST);
    return 0;
}
