// Every operator new refuses sizes past PTRDIFF_MAX: bad_alloc, or a null pointer from nothrow.
// promise: 20
#include "common.h"
#include <new>

template <class F> static void throws(F take)
{
    bool caught = false;
    try {
        take();
    } catch (std::bad_alloc &) {
        caught = true;
    }
    CHECK(caught);
}

static void refuse(size_t n)
{
    n = launder_size(n);
    throws([=] { return ::operator new(n); });
    throws([=] { return ::operator new[](n); });
    CHECK(::operator new(n, std::nothrow) == nullptr);
    CHECK(::operator new[](n, std::nothrow) == nullptr);
    /* libstdc++ 12 rounds the size up to the alignment without a check. */
    for (int bit = 0; bit < 40 && on_toft(); bit++) {
        std::align_val_t a{(size_t)1 << bit};
        throws([=] { return ::operator new(n, a); });
        throws([=] { return ::operator new[](n, a); });
        CHECK(::operator new(n, a, std::nothrow) == nullptr);
        CHECK(::operator new[](n, a, std::nothrow) == nullptr);
    }
}

int main()
{
    for (size_t i = 0; i < 40; i++)
        refuse(SIZE_MAX - i);
    for (int bit = 6; bit < 62; bit++)
        refuse(SIZE_MAX - ((size_t)1 << bit));
    for (size_t i = 1; i < 20; i++)
        refuse((size_t)PTRDIFF_MAX + i);
    throws([] { return new char[launder_size(SIZE_MAX / 2)][16]; });
    return 0;
}
