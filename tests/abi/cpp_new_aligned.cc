// Aligned operator new in all its forms honours every power of two, and every aligned delete takes
// the block back.
// promise: 21 22
#include "common.h"
#include <new>

struct alignas(256) Wide {
    char c[300];
};

int main()
{
    for (int bit = 0; bit <= 22; bit++) {
        size_t alignment = (size_t)1 << bit;
        std::align_val_t a{alignment};
        for (size_t size = 0; size < 300000; size = size * 6 + 1) {
            void *p[6] = {::operator new(size, a),
                          ::operator new[](size, a),
                          ::operator new(size, a, std::nothrow),
                          ::operator new[](size, a, std::nothrow),
                          ::operator new(size, a),
                          ::operator new[](size, a)};
            for (int k = 0; k < 6; k++) {
                CHECK(p[k] && reinterpret_cast<uintptr_t>(p[k]) % alignment == 0);
                fill(p[k], size, (uint64_t)k);
            }
            for (int k = 0; k < 6; k++)
                CHECK(filled(p[k], size, (uint64_t)k));
            ::operator delete(p[0], a);
            ::operator delete[](p[1], a);
            ::operator delete(p[2], a, std::nothrow);
            ::operator delete[](p[3], a, std::nothrow);
            ::operator delete(p[4], size, a);
            ::operator delete[](p[5], size, a);
        }
    }
    for (int i = 1; i < 100; i++) {
        Wide *w = new Wide, *many = new Wide[(size_t)i];
        CHECK(reinterpret_cast<uintptr_t>(w) % 256 == 0);
        CHECK(reinterpret_cast<uintptr_t>(launder(many)) % 256 == 0);
        delete w;
        delete[] many;
    }
    return 0;
}
