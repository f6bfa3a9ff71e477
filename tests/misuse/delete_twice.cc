// A block given to operator delete twice.
// run: 64
// run: 5000
// run: 300000
// expect: signal ABRT
// libc: skip glibc says it in other words or not at all
// twin: deletes it once
// promise: 4
// case: delete_twice
// stderr: toft: double free: operator delete({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// case: delete_nothrow_twice
// stderr: toft: double free: operator delete({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// case: delete_sized_twice
// stderr: toft: double free: operator delete({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// case: delete_aligned_twice
// stderr: toft: double free: operator delete({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// case: delete_array_twice
// stderr: toft: double free: {operator delete|operator delete[]}({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// case: delete_array_sized_aligned_twice
// stderr: toft: double free: {operator delete|operator delete[]}({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
#include "common.h"
#include <new>

static size_t size;

HELPER void twice(void *made, void (*end)(void *))
{
    void *p = launder(made);
    CHECK(p);
    announce_block(p);
    end(p);
    MISUSE(end(launder(p));)
}

HELPER void delete_twice()
{
    twice(::operator new(size), [](void *p) { ::operator delete(p); });
}

HELPER void delete_nothrow_twice()
{
    twice(::operator new(size, std::nothrow), [](void *p) { ::operator delete(p, std::nothrow); });
}

HELPER void delete_sized_twice()
{
    twice(::operator new(size), [](void *p) { ::operator delete(p, size); });
}

static const std::align_val_t align{64};

HELPER void delete_aligned_twice()
{
    twice(::operator new(size, align), [](void *p) { ::operator delete(p, align); });
}

HELPER void delete_array_twice()
{
    twice(::operator new[](size), [](void *p) { ::operator delete[](p); });
}

HELPER void delete_array_sized_aligned_twice()
{
    twice(::operator new[](size, align), [](void *p) { ::operator delete[](p, size, align); });
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size = strtoul(argv[1], NULL, 10);
    CASE();
    return END;
}
