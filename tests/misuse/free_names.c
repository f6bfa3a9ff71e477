// The other names of free are checked as it is.
// expect: signal ABRT
// libc: skip glibc says it in other words or not at all
// twin: frees it once
// promise: 4
// case: cfree_twice -DNAME="cfree"
// stderr: toft: double free: {free|cfree}({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// case: libc_free_twice -DNAME="__libc_free"
// stderr: toft: double free: {free|__libc_free}({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// musl: skip has no such names
#include "common.h"

int main(void)
{
    void (*other_free)(void *) = (void (*)(void *))symbol(NAME);
    CORRECT(if (!other_free) return 0;)
    CHECK(other_free);
    void *p = launder(malloc(64));
    CHECK(p);
    announce_block(p);
    other_free(p);
    MISUSE(other_free(launder(p));)
    return END;
}
