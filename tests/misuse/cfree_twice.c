// cfree is checked as free is.
// expect: signal ABRT
// stderr: toft: double free: {free|cfree}({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: frees it once
// promise: 4
#include "common.h"

int main(void)
{
    void (*cfree)(void *) = (void (*)(void *))symbol("cfree");
    CORRECT(if (!cfree) return 0;)
    CHECK(cfree);
    void *p = launder(malloc(64));
    CHECK(p);
    announce_block(p);
    cfree(p);
    MISUSE(cfree(launder(p));)
    return END;
}
