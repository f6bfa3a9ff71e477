// With 4096 partitions two sites all but never share: of eight pairs at most one may.
// env: TOFT_PARTITIONS=4096
// run: 64 0
// run: 1000 0
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
    CHECK(disjoint >= 7);
    return 0;
}
