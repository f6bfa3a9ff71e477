// A slot that call site A freed is never handed to call site B: 64 and 1000 bytes, while A still
// has live blocks, after all of them drained, and after a trim; for every entry point. At least
// DISJOINT of eight pairs of sites share no slot.
// run: 64 0
// run: 1000 0
// timeout: 120
// libc: skip glibc gives anything to anyone
// promise: 15
// case: site_separation -DDISJOINT=4
// env: TOFT_PARTITIONS=64
// Two sites of one partition may share. With 64 partitions, five collisions in eight pairs come
// once in 20 million runs.
// promise: 17
// run: 64 1
// run: 1000 2
// run: 64 3
// run: 1000 4
// run: 64 5
// case: site_separation_4096 -DDISJOINT=7
// With 4096 partitions two sites all but never share.
// promise: 17
// env: TOFT_PARTITIONS=4096
// case: site_separation_exact -DDISJOINT=8
// Where each call site has its own partition, none do.
// env: TOFT_PARTITIONS=exact
// run: 64 1
// run: 1000 2
// run: 64 3
// run: 1000 4
// run: 64 5
#include "pairs.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t size = strtoul(argv[1], NULL, 10);
    site_function = atoi(argv[2]);
    CHECK(disjoint_pairs(size) >= DISJOINT);
    return 0;
}
