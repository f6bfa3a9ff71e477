// A large block freed as a small one, as a larger one, and with a byte less or more.
// build: secure the default one believes it
// run: 300000 100
// run: 300000 3000000
// run: 300000 299999
// run: 300000 300001
// expect: signal ABRT
// stderr: toft: size mismatch: free_sized({p}): this {size}-byte block is not one of {given} bytes (large block, partition {n}; call site {addr})
// twin: says what it has asked for
// promise: 5
#include "common.h"

int main(int argc, char **argv)
{
    free_sized_fn free_sized = (free_sized_fn)symbol("free_sized");
    CORRECT(if (!free_sized) return 0;)
    CHECK(free_sized);
    CHECK(argc == 3);
    size_t size = strtoul(argv[1], NULL, 10), given = strtoul(argv[2], NULL, 10);
    void *p = launder(malloc(size));
    CHECK(p);
    announce_block(p);
    announce_number("given", given);
    CORRECT(given = size;)
    free_sized(p, given);
    return END;
}
