// sdallocx with a size that was not requested, if only by a byte.
// build: secure the default one believes it
// libc: skip it has no such calls
// musl: skip weak names take nothing out of an archive
// expect: signal ABRT
// twin: says what it has asked for
// promise: 5
// case: sdallocx_size
// run: 100 10
// run: 100 99
// run: 100 101
// run: 5000 300000
// run: 5000 4999
// stderr: toft: size mismatch: sdallocx({p}): this {size}-byte block is not one of {given} bytes ({re:small|medium} slab, slot {n}, partition {n}; call site {addr})
// case: sdallocx_size_large
// run: 300000 100
// run: 300000 299999
// run: 300000 300001
// stderr: toft: size mismatch: sdallocx({p}): this {size}-byte block is not one of {given} bytes (large block, partition {n}; call site {addr})
#include "jemalloc.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t size = strtoul(argv[1], NULL, 10), given = strtoul(argv[2], NULL, 10);
    void *p = launder(mallocx(size, ZERO));
    CHECK(p);
    announce_block(p);
    announce_number("given", given);
    CORRECT(given = size;)
    sdallocx(p, given, 0);
    /* A block of any alignment that was resized is what it was resized to. */
    for (int shift = 0; shift <= 16; shift++) {
        p = mallocx(size, LG_ALIGN(shift));
        p = rallocx(p, size - size / 4, LG_ALIGN(shift));
        sdallocx(p, size - size / 4, LG_ALIGN(shift));
        p = mallocx(size, LG_ALIGN(shift));
        sdallocx(p, xallocx(p, size - size / 8, 0, LG_ALIGN(shift)), LG_ALIGN(shift));
    }
    return END;
}
