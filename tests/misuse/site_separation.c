// A slot that call site A freed is never handed to call site B: 64 and 1000 bytes, while A still
// has live blocks, after all of them drained, and after a trim; for every entry point. Two sites
// of one partition may share, so of eight pairs most must be disjoint to the last slot.
// run: 64 0
// run: 1000 0
// run: 64 1
// run: 1000 2
// run: 64 3
// run: 1000 4
// run: 64 5
// timeout: 120
// libc: skip glibc gives anything to anyone
// promise: 15 17
#include "pairs.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t size = strtoul(argv[1], NULL, 10);
    site_function = atoi(argv[2]);
    int disjoint = disjoint_pairs(size);
    /* With 64 partitions, three collisions in eight pairs come once in 5000 runs. */
    CHECK(disjoint >= 6);
    return 0;
}
