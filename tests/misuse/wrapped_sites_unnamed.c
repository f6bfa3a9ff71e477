// The twin: the wrapper is not named, so all its callers are one call site, and share.
// env: TOFT_PARTITIONS=exact
// env: TOFT_WRAPPERS=wrap_framed
// run: 64 0 0
// run: 64 2 0
// timeout: 120
// libc: skip it has no partitions
// promise: 16
#include "wrapped.h"
#include "pairs.h"

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    shape = atoi(argv[2]);
    CHECK(disjoint_pairs(strtoul(argv[1], NULL, 10)) == 0);
    return 0;
}
