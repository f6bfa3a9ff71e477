// A block freed and then deleted.
// run: 64
// run: 5000
// run: 300000
// expect: signal ABRT
// stderr: toft: double free: operator delete({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: deletes it once
// promise: 4
#include "common.h"
#include <new>

int main(int argc, char **argv)
{
    void *p = announced_block(argc, argv);
    MISUSE(free(p);)
    ::operator delete(launder(p));
    return END;
}
