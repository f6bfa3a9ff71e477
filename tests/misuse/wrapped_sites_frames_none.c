// The twin: without unwind tables and without frame pointers nothing leads to the callers, and they
// share.
// flags: -fno-asynchronous-unwind-tables -fno-unwind-tables -fomit-frame-pointer
// env: TOFT_WRAPPERS=auto
// run: 64 0 0
// timeout: 120
// libc: skip it has no partitions
// promise: 16
#include "wrapped.h"
#include "found.h"
#include "many_sites.h"

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    shape = atoi(argv[2]);
    many_sizes();
    CHECK(statistic("found_wrappers") == 0);
    CHECK(disjoint_pairs(strtoul(argv[1], NULL, 10)) == 0);
    return 0;
}
