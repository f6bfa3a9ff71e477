// free_sized with a size that was not requested, if only by a byte.
// build: secure the default one believes it
// expect: signal ABRT
// twin: says what it has asked for
// promise: 5
// case: size_mismatch_free_sized
// run: 100 10
// run: 100 200
// run: 5000 100
// run: 5000 300000
// run: 100 99999999999
// run: 100 99
// run: 100 101
// run: 5000 4999
// run: 5000 5001
// stderr: toft: size mismatch: free_sized({p}): this {size}-byte block is not one of {given} bytes ({re:small|medium} slab, slot {n}, partition {n}; call site {addr})
// case: size_mismatch_large
// run: 300000 100
// run: 300000 3000000
// run: 300000 299999
// run: 300000 300001
// stderr: toft: size mismatch: free_sized({p}): this {size}-byte block is not one of {given} bytes (large block, partition {n}; call site {addr})
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
    CORRECT(free_sized(launder(malloc(size)), size);)
    /* A block that was resized is what it was resized to. */
    CORRECT(p = realloc(malloc(120), 100); CHECK(p); free_sized(p, 100);)
    return END;
}
