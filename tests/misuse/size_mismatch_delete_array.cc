// A sized delete of an array, with another size.
// build: secure the default one believes it
// run: 16
// run: 499
// run: 501
// expect: signal ABRT
// stderr: toft: size mismatch: operator delete({p}): this {size}-byte block is not one of {given} bytes (small slab, slot {n}, partition {n}; call site {addr})
// twin: deletes it with its own
// promise: 5
#include "common.h"
#include <new>

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t given = strtoul(argv[1], NULL, 10);
    void *p = launder(::operator new[](500));
    announce_block(p);
    announce_number("given", given);
    CORRECT(given = 500;)
    ::operator delete[](p, given);
    return END;
}
