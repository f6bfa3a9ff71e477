// posix_memalign: the alignment must be a power of two and a multiple of a pointer's size; a
// failure is its return value and leaves the pointer alone.
// promise: 20 21
#include "common.h"

int main(void)
{
    void *sentinel = (void *)0x1234;
    static const size_t bad[] = {0, 1, 2, 3, 4, 5, 7, 12, 24, 48, 100, 4095, SIZE_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        void *p = sentinel;
        CHECK(posix_memalign(&p, launder_size(bad[i]), 64) == EINVAL);
        CHECK(p == sentinel);
    }
    for (int bit = 3; bit < 22; bit++)
        for (size_t size = 0; size < 100000; size = size * 3 + 1) {
            size_t alignment = (size_t)1 << bit;
            void *p = sentinel;
            CHECK(posix_memalign(&p, alignment, size) == 0);
            CHECK(p && p != sentinel && (uintptr_t)p % alignment == 0);
            memset(p, 1, size);
            free(p);
            p = sentinel;
            CHECK(posix_memalign(&p, alignment, SIZE_MAX - size) == ENOMEM);
            CHECK(p == sentinel);
        }
    return 0;
}
