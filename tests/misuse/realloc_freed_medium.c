// realloc of a freed medium block.
// expect: signal ABRT
// stderr: toft: double free: realloc({p}): this {size}-byte block is already free (medium slab, slot {n}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: reallocates before it frees
// promise: 4
#include "common.h"

int main(void)
{
    void *p = launder(malloc(5000));
    CHECK(p);
    announce_block(p);
    CORRECT(p = realloc(p, 5000 * 2); CHECK(p);)
    free(p);
    MISUSE(p = realloc(launder(p), 5000 * 2);)
    return END;
}
