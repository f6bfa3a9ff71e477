// A program writes to a freed block whose slot is not allocated again: it exits, or first allocates
// 5 000 blocks of other sizes. The write is reported when the program ends.
// run: 20 0
// run: 1000 0
// build: full the light one does not clear what is freed
// expect: signal ABRT
// stderr: toft: write after free: verify({p}): byte 3 of this free {size}-byte block was overwritten ({re:small|medium} slab, slot {n}, partition {n}; call site {addr})
// libc: skip it has no such option
// twin: writes before it frees
// promise: 12
// case: exit_write_after_free
// env: TOFT_VERIFY=exit
// run: 20000 0
// run: 20 5000
// run: 1000 5000
// case: verify_at_exit
// env: TOFT_VERIFY=1000000000
#include "common.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t size = strtoul(argv[1], NULL, 10);
    unsigned char *p = launder(malloc(size));
    announce_block(p);
    CORRECT(p[3] = 1;)
    free(p);
    MISUSE(((unsigned char *)launder(p))[3] = 1;)
    for (size_t i = 0; i < strtoul(argv[2], NULL, 10); i++)
        CHECK(launder(malloc(2 * size + 16 * (i % 50))) != NULL);
    return 0;
}
