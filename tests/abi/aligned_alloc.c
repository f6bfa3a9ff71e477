// aligned_alloc honours every power of two and refuses anything else with EINVAL.
// promise: 21
#include "common.h"

int main(void)
{
    for (int bit = 0; bit < 22; bit++)
        for (size_t size = 0; size < 300000; size = size * 5 + 1) {
            size_t alignment = (size_t)1 << bit;
            void *p = aligned_alloc(alignment, size);
            CHECK(p);
            CHECK((uintptr_t)p % alignment == 0);
            memset(p, 1, size);
            free(p);
        }
    /* The C library checks this only since 2.38. */
    if (on_toft()) {
        static const size_t bad[] = {0, 3, 5, 6, 24, 100, 4095, SIZE_MAX, SIZE_MAX / 2};
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            errno = 0;
            CHECK(aligned_alloc(launder_size(bad[i]), 64) == NULL);
            CHECK(errno == EINVAL);
        }
    }
    return 0;
}
