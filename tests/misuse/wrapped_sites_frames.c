// Where a function has no unwind tables, frame pointers lead to its caller: of one that was named,
// as of one that is found. Here the program has none at all.
// flags: -fno-asynchronous-unwind-tables -fno-unwind-tables -fno-omit-frame-pointer
// env: TOFT_WRAPPERS=auto,allocate,wrap_entry
// run: 64 1 0
// run: 1000 1 0
// run: 64 3 0
// run: 64 3 1
// timeout: 120
// libc: skip glibc gives anything to anyone
// promise: 16
#include "wrapped.h"
#include "found.h"
#include "many_sites.h"

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    shape = atoi(argv[2]);
    entry = atoi(argv[3]);
    many_sizes();
    CHECK(statistic("found_wrappers") == (shape == 1));
    CHECK(statistic("wrapper_sites") == (shape == 1 ? 1 : 2));
    CHECK(disjoint_pairs(strtoul(argv[1], NULL, 10)) == SITES / 2);
    return 0;
}
