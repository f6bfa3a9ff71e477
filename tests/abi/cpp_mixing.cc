// C and C++ take each other's blocks: what programs do without knowing, and every allocator must
// bear.
// promise: 6 22
#include "common.h"
#include <new>
#include <string>

int main()
{
    for (size_t size = 1; size < 500000; size = size * 2 + 1)
        for (int i = 0; i < 100; i++) {
            free(::operator new(size));
            free(::operator new[](size));
            ::operator delete(malloc(size));
            ::operator delete[](calloc(1, size));
            ::operator delete(realloc(malloc(1), size));
            ::operator delete(aligned_alloc(64, size));
            free(::operator new(size, std::align_val_t{512}));
            ::operator delete[](::operator new(size));
            void *p = realloc(::operator new(size), size * 2);
            CHECK(p);
            ::operator delete(p);
            char *copy = strdup("copied by the C library");
            ::operator delete(copy);
        }
    return 0;
}
