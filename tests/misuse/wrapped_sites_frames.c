// Where a function has no unwind tables, frame pointers lead to its caller: of one that was named,
// as of one that is found. Here the program has none at all.
// flags: -fno-asynchronous-unwind-tables -fno-unwind-tables
// timeout: 120
// libc: skip glibc gives anything to anyone
// promise: 16
// case: wrapped_sites_frames -fno-omit-frame-pointer -DFOUND=(shape==1) -DDISJOINT=SITES/2
// env: TOFT_WRAPPERS=auto,allocate,wrap_entry
// run: 64 1 0
// run: 1000 1 0
// run: 64 3 0
// run: 64 3 1
// case: wrapped_sites_frames_none -fomit-frame-pointer -DFOUND=0 -DDISJOINT=0
// The twin: without frame pointers nothing leads to the callers, and they share.
// env: TOFT_WRAPPERS=auto
// run: 64 0 0
#include "wrapped.h"
#include "found.h"
#include "many_sites.h"

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    shape = atoi(argv[2]);
    entry = atoi(argv[3]);
    many_sizes();
    CHECK(statistic("found_wrappers") == FOUND);
    if (DISJOINT)
        CHECK(statistic("wrapper_sites") == (shape == 1 ? 1 : 2));
    CHECK(disjoint_pairs(strtoul(argv[1], NULL, 10)) == DISJOINT);
    return 0;
}
