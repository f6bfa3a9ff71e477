// operator delete of an address inside a block, as of an array that a plain delete takes for one
// object.
// run: 64
// run: 5000
// run: 300000
// expect: signal ABRT
// stderr: toft: invalid free: operator delete({q}): 8 bytes inside the {size}-byte block at {p} ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}, live; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: deletes the block itself
// promise: 4
#include "common.h"
#include <new>

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    char *p = static_cast<char *>(launder(::operator new(size)));
    CHECK(p);
    announce_block(p);
    announce("q", p + 8);
    MISUSE(::operator delete(launder(p + 8));)
    CORRECT(::operator delete(p);)
    return END;
}
