// Separation survives functions that wrap malloc, where their names are given: a slot that one
// caller of a wrapper has freed is never handed to another. Wrappers that are found by the stack
// pointer, by the frame pointer, one behind the other, and of the other entry points.
// run: 64 0 0
// run: 64 2 0
// timeout: 120
// libc: skip glibc gives anything to anyone
// promise: 16
// case: wrapped_sites -DDISJOINT=SITES/2
// env: TOFT_WRAPPERS=wrap_*,allocate
// run: 1000 0 0
// run: 64 1 0
// run: 1000 1 0
// run: 1000 2 0
// run: 64 3 0
// run: 64 3 1
// run: 1000 3 2
// run: 64 3 3
// run: 1000 3 4
// case: wrapped_sites_unnamed -DDISJOINT=0
// The twin: the wrapper is not named, so all its callers are one call site, and share.
// env: TOFT_PARTITIONS=exact
// env: TOFT_WRAPPERS=wrap_framed
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
