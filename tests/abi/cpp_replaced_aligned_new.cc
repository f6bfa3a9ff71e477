// A program replaces the aligned form of operator new by one that rounds the size up, as
// aligned_alloc wants it, and the plain form of the aligned delete. The sized form accepts the size
// of the object.
// promise: 6 22
#include "common.h"
#include <new>

void *operator new(size_t size, std::align_val_t align)
{
    size_t unit = (size_t)align;
    void *p = aligned_alloc(unit, (size + unit - 1) / unit * unit);
    if (!p)
        throw std::bad_alloc();
    return p;
}

void operator delete(void *p, std::align_val_t) noexcept
{
    free(p);
}

int main()
{
    std::align_val_t align{64};
    for (size_t size = 1; size < 1000; size += 7) {
        void *p = launder(::operator new(size, align));
        CHECK((uintptr_t)p % 64 == 0);
        memset(p, 1, size);
        ::operator delete(p, size, align);
    }
    return 0;
}
