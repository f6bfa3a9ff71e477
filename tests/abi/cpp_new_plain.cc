// Plain, array and nothrow operator new and every matching delete: 16-byte aligned, unique also for
// 0, and the same blocks as malloc's.
// promise: 22
#include "common.h"
#include <memory>
#include <new>

int main()
{
    for (size_t size = 0; size < 400000; size = size * 3 + 1) {
        for (int i = 0; i < 50; i++) {
            void *p[4] = {::operator new(size), ::operator new[](size),
                          ::operator new(size, std::nothrow), ::operator new[](size, std::nothrow)};
            for (int k = 0; k < 4; k++) {
                CHECK(p[k] && reinterpret_cast<uintptr_t>(p[k]) % 16 == 0);
                CHECK(malloc_usable_size(p[k]) >= size);
                for (int j = 0; j < k; j++)
                    CHECK(p[j] != p[k]);
                fill(p[k], size, (uint64_t)k);
            }
            for (int k = 0; k < 4; k++)
                CHECK(filled(p[k], size, (uint64_t)k));
            ::operator delete(p[0]);
            ::operator delete[](p[1]);
            ::operator delete(p[2], std::nothrow);
            ::operator delete[](p[3], std::nothrow);
        }
    }
    ::operator delete(nullptr);
    ::operator delete[](nullptr);
    ::operator delete(nullptr, std::nothrow);
    ::operator delete[](nullptr, std::nothrow);
    ::operator delete(nullptr, (size_t)8);
    ::operator delete[](nullptr, (size_t)8);
    ::operator delete(nullptr, std::align_val_t{64});
    ::operator delete[](nullptr, (size_t)8, std::align_val_t{64});
    struct Item {
        int *at;
        Item() : at(new int(3)) {}
        ~Item() { delete at; }
    };
    for (int i = 0; i < 1000; i++) {
        std::unique_ptr<Item[]> items(new Item[(size_t)i]);
        std::unique_ptr<Item> one(new Item);
        CHECK(*one->at == 3);
    }
    return 0;
}
