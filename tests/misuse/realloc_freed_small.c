// realloc of a freed small block.
// expect: signal ABRT
// stderr: toft: double free: realloc({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: reallocates before it frees
// promise: 4
#include "common.h"

int main(void)
{
    void *p = launder(malloc(64));
    CHECK(p);
    announce_block(p);
    CORRECT(p = realloc(p, 64 * 2); CHECK(p);)
    free(p);
    MISUSE(p = realloc(launder(p), 64 * 2);)
    return END;
}
