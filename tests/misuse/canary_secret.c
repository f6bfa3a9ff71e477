// The canary after a block differs in every process and after every block. No byte of it is zero. A
// string that runs on reads this canary only, and a zero that is written over it is found.
// build: secure the default one writes nothing there
// libc: skip glibc writes nothing there
// promise: 3 7
#include "common.h"

enum { BLOCKS = 64, RUNS = 8 };

static void print(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        unsigned char *p = launder(malloc(39));
        CHECK(p && !memchr(p + 39, 0, 9));
        /* Behind 39 bytes of 48 there is room for nine. */
        uint64_t word;
        memcpy(&word, p + 40, sizeof word);
        printf("%016llx\n", (unsigned long long)word);
    }
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, 17);
}

int main(int argc, char **argv)
{
    if (argc == 2) {
        (void)argv;
        print();
        return 0;
    }
    static char text[RUNS * BLOCKS * 17 + 2];
    size_t used = 0;
    for (int run = 0; run < RUNS; run++) {
        int status = run_again("print", 1, text + used, sizeof text - used);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        used += BLOCKS * 17;
        CHECK(strlen(text) == used);
    }
    qsort(text, RUNS * BLOCKS, 17, compare);
    for (int i = 1; i < RUNS * BLOCKS; i++)
        CHECK(memcmp(text + 17 * (i - 1), text + 17 * i, 16) != 0);
    return 0;
}
