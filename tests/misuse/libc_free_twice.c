// The __libc_ names are checked as the others are.
// expect: signal ABRT
// stderr: toft: double free: {free|__libc_free}({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: frees it once
// promise: 4
// musl: skip has no such names
#include "common.h"

int main(void)
{
    void (*l_free)(void *) = (void (*)(void *))symbol("__libc_free");
    CHECK(l_free);
    void *p = launder(malloc(64));
    CHECK(p);
    announce_block(p);
    l_free(p);
    MISUSE(l_free(launder(p));)
    return END;
}
