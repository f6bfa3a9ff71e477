// A sized delete that names another alignment than the new, or none where that named one (0).
// build: secure the default one believes it
// run: 100 0 64
// run: 100 64 0
// run: 100 64 16
// run: 100 64 256
// run: 100 256 64
// run: 5000 0 4096
// run: 8192 4096 0
// run: 300000 0 4096
// run: 300000 64 4096
// run: 100 262144 64
// run: 100 262144 0
// run: 0 0 64
// expect: signal ABRT
// stderr: toft: alignment mismatch: operator delete({p}): this {size}-byte block was {re:not requested at a multiple of [0-9]+|requested with an alignment} ({re:(small|medium) slab, slot [0-9]+, partition [0-9]+; call site 0x[0-9a-f]+|large block, partition [0-9]+; call site 0x[0-9a-f]+|of no bytes})
// twin: deletes it with its own
// promise: 5
#include "common.h"
#include <new>

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    size_t size = strtoul(argv[1], NULL, 10);
    size_t align = strtoul(argv[2], NULL, 10), given = strtoul(argv[3], NULL, 10);
    void *p = launder(align ? ::operator new(size, std::align_val_t{align}) : ::operator new(size));
    announce_block(p);
    CORRECT(given = align;)
    if (given)
        ::operator delete(p, size, std::align_val_t{given});
    else
        ::operator delete(p, size);
    return END;
}
