// jemalloc's calls with a freed block, each by its name.
// run: 64
// run: 5000
// run: 300000
// expect: signal ABRT
// libc: skip it has no such calls
// musl: skip weak names take nothing out of an archive
// twin: gives each a live block
// promise: 4
// case: dallocx_freed
// stderr: toft: double free: dallocx({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// case: sdallocx_freed
// stderr: toft: double free: sdallocx({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// case: rallocx_freed
// stderr: toft: double free: rallocx({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// case: rallocx_aligned_freed
// stderr: toft: double free: rallocx({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// case: xallocx_freed
// stderr: toft: double free: xallocx({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// case: sallocx_freed
// stderr: toft: double free: sallocx({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
#include "jemalloc.h"

HELPER void dallocx_freed(void *p, size_t size)
{
    (void)size;
    MISUSE(dallocx(p, 0);)
    dallocx(launder(p), 0);
}

HELPER void sdallocx_freed(void *p, size_t size)
{
    MISUSE(sdallocx(p, size, 0);)
    sdallocx(launder(p), size, 0);
}

HELPER void rallocx_freed(void *p, size_t size)
{
    MISUSE(dallocx(p, 0);)
    p = rallocx(launder(p), 2 * size, 0);
    CORRECT(dallocx(p, 0);)
}

HELPER void rallocx_aligned_freed(void *p, size_t size)
{
    MISUSE(dallocx(p, 0);)
    p = rallocx(launder(p), 2 * size, ALIGN(64));
    CORRECT(dallocx(p, 0);)
}

HELPER void xallocx_freed(void *p, size_t size)
{
    MISUSE(dallocx(p, 0);)
    CHECK(xallocx(launder(p), size, 0, 0) >= size);
    CORRECT(dallocx(p, 0);)
}

HELPER void sallocx_freed(void *p, size_t size)
{
    MISUSE(dallocx(p, 0);)
    CHECK(sallocx(launder(p), 0) >= size);
    CORRECT(dallocx(p, 0);)
}

int main(int argc, char **argv)
{
    void *p = announced_block(argc, argv);
    CASE(p, malloc_usable_size(p));
    return END;
}
