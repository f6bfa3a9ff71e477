// A sized and aligned delete, with another size, also one that has the block's size when it is
// rounded up to the alignment. Only the C++ library's operator new rounds sizes up, which is not
// called here.
// build: secure the default one believes it
// run: 100 1000
// run: 100 129
// run: 128 64
// run: 128 65
// run: 128 100
// run: 128 127
// run: 200000 199999
// run: 4096 4033
// run: 128 129
// expect: signal ABRT
// stderr: toft: size mismatch: operator delete({p}): this {size}-byte block is not one of {given} bytes ({re:small slab, slot [0-9]+|medium slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// twin: deletes it with its own
// promise: 5
#include "common.h"
#include <new>

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t size = strtoul(argv[1], NULL, 10), given = strtoul(argv[2], NULL, 10);
    void *p = launder(::operator new(size, std::align_val_t{64}));
    announce_block(p);
    announce_number("given", given);
    CORRECT(given = size;)
    ::operator delete(p, given, std::align_val_t{64});
    return END;
}
