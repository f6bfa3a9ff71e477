// An overflow of a block that is never freed, in a program that ends by quick_exit: with
// TOFT_VERIFY=exit it is reported then.
// env: TOFT_VERIFY=exit
// build: secure the default one does not look
// expect: signal ABRT
// stderr: toft: heap overflow: verify({p}): byte 0 behind this {size}-byte block was overwritten (small slab, slot {n}, partition {n}; call site {addr})
// libc: skip it has no such option
// twin: stays within the block
// promise: 12
#include "common.h"

int main(void)
{
    unsigned char *p = launder(malloc(100));
    announce_block(p);
    p[99] = 1;
    MISUSE(p[100] = 1;)
    quick_exit(0);
}
