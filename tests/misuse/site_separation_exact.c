// Where each call site has its own partition, no slot that one has freed is ever handed to another:
// for every entry point, small, medium and large.
// env: TOFT_PARTITIONS=exact
// run: 64 0
// run: 1000 0
// run: 64 1
// run: 1000 2
// run: 64 3
// run: 1000 4
// run: 64 5
// timeout: 120
// libc: skip glibc gives anything to anyone
// promise: 15
#include "pairs.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    site_function = atoi(argv[2]);
    CHECK(disjoint_pairs(strtoul(argv[1], NULL, 10)) == SITES / 2);
    return 0;
}
