// Accesses beyond a sampled block whose end, or start, is where a guard page is: a write one byte
// beyond it, a read far beyond it, a write one byte before it.
// env: TOFT_GUARDED=1
// expect: signal ABRT
// libc: skip it has no such option
// twin: stays within the block
// promise: 28
// case: guarded_overflow -DEDGE=p+n -DMISTAKE=p[n]=1
// stderr: toft: heap overflow: write({q}): 1 bytes beyond the {size}-byte block at {p} (guarded block, live; call site {addr})
// case: guarded_read_overflow -DEDGE=p+n -DMISTAKE=(void)p[n+100]
// stderr: toft: heap overflow: read({r}): 101 bytes beyond the {size}-byte block at {p} (guarded block, live; call site {addr})
// case: guarded_underflow -DEDGE=p -DMISTAKE=p[-1]=1
// stderr: toft: heap underflow: write({o}): 1 bytes before the {size}-byte block at {p} (guarded block, live; call site {addr})
#include "common.h"

int main(void)
{
    /* Which end of its slot a block is at is chance. */
    volatile char *p;
    size_t n;
    do {
        p = launder(malloc(112));
        CHECK(p);
        n = malloc_usable_size((void *)p);
        CHECK(n == 112);
    } while ((uintptr_t)(EDGE) % 4096 != 0);
    announce_block((void *)p);
    announce("q", (void *)(p + n));
    announce("r", (void *)(p + n + 100));
    announce("o", (void *)(p - 1));
    for (size_t i = 0; i < n; i++)
        p[i] = (char)i;
    MISUSE(MISTAKE;)
    return END;
}
