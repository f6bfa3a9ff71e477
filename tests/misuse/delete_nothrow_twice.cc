// A block given to operator delete twice.
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
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    void *p = launder(::operator new(size, std::nothrow));
    CHECK(p);
    announce_block(p);
    ::operator delete(p, std::nothrow);
    MISUSE(::operator delete(launder(p), std::nothrow);)
    return END;
}
