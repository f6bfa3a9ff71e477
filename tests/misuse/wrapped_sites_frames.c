// Where a function has no unwind tables, frame pointers lead to its caller. Here the program has no
// tables at all.
// flags: -fno-asynchronous-unwind-tables -fno-unwind-tables
// env: TOFT_WRAPPERS=wrap_framed,wrap_entry,allocate
// timeout: 120
// libc: skip glibc gives anything to anyone
// promise: 16
// case: wrapped_sites_frames -fno-omit-frame-pointer -DDISJOINT=SITES/2
// run: 64 1 0
// run: 1000 1 0
// run: 64 3 0
// run: 64 3 1
// case: wrapped_sites_frames_none -fomit-frame-pointer -DDISJOINT=0
// The twin: without frame pointers nothing leads to the callers, and they share.
// run: 64 3 0
#include "wrapped.h"
#include "pairs.h"

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    shape = atoi(argv[2]);
    entry = atoi(argv[3]);
    CHECK(disjoint_pairs(strtoul(argv[1], NULL, 10)) == DISJOINT);
    return 0;
}
