// A write after a free, of a block that is not handed out again: with TOFT_VERIFY it is named when
// the program ends.
// run: 20
// run: 1000
// env: TOFT_VERIFY=1000000000
// build: full the light one does not clear what is freed
// expect: signal ABRT
// stderr: toft: write after free: verify({p}): byte 3 of this free {size}-byte block was overwritten ({re:small|medium} slab, slot {n}, partition {n}; call site {addr})
// libc: skip it has no such option
// twin: writes before it frees
// promise: 12
#include "common.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    unsigned char *p = launder(malloc(strtoul(argv[1], NULL, 10)));
    announce_block(p);
    CORRECT(p[3] = 1;)
    free(p);
    MISUSE(((unsigned char *)launder(p))[3] = 1;)
    return 0;
}
