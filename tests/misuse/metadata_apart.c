// What the allocator keeps for itself is in separate mappings whose distance from the blocks
// differs from run to run in at least 20 bits.
// libc: skip glibc keeps its metadata between blocks
// timeout: 60
// promise: 2
#include "common.h"

enum { RUNS = 40, AREAS = 64 };

/* In the child: the block's address, then the start of each writable anonymous mapping that holds
 * none of many blocks. */
static void report(void)
{
    static char text[1 << 20];
    static uintptr_t block[4000];
    for (int i = 0; i < 4000; i++)
        block[i] = (uintptr_t)malloc((size_t)i * 16);
    printf("%lx", block[1]);
    slurp("/proc/self/maps", text, sizeof text);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *after;
        uintptr_t from = strtoul(line, &after, 16), to = strtoul(after + 1, &after, 16);
        if (after[2] != 'w' || strchr(line, '/') || strchr(line, '['))
            continue;
        int holds_block = 0;
        for (int i = 0; i < 4000; i++)
            holds_block |= block[i] >= from && block[i] < to;
        if (!holds_block)
            printf(" %lx", from);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        report();
        return 0;
    }
    static uintptr_t distance[RUNS][AREAS];
    int least = AREAS;
    for (int run = 0; run < RUNS; run++) {
        char text[4096], *at = text;
        CHECK(run_again("report", 1, text, sizeof text) == 0);
        uintptr_t block = strtoul(at, &at, 16);
        int n = 0;
        while (*at == ' ' && n < AREAS)
            distance[run][n++] = strtoul(at, &at, 16) - block;
        least = n < least ? n : least;
    }
    CHECK(least > 0);
    for (int area = 0; area < least; area++) {
        uintptr_t varying = 0;
        for (int run = 1; run < RUNS; run++)
            varying |= distance[run][area] ^ distance[0][area];
        CHECK(__builtin_popcountl(varying) >= 20);
    }
    return 0;
}
