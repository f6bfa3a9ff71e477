// memalign rounds an odd alignment up to the next power of two, as glibc does, and refuses one that
// no address can have.
// promise: 21
#include "common.h"

int main(void)
{
    static const size_t odd[] = {0, 1, 3, 5, 8, 9, 15, 17, 24, 33, 100, 1000, 4095, 4097, 65537};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        for (size_t size = 0; size < 300000; size = size * 7 + 1) {
            size_t power = 16;
            while (power < odd[i])
                power *= 2;
            void *p = memalign(launder_size(odd[i]), size);
            CHECK(p);
            CHECK((uintptr_t)p % power == 0);
            memset(p, 1, size);
            free(p);
        }
    errno = 0;
    CHECK(memalign(launder_size(SIZE_MAX / 2 + 2), 1) == NULL);
    CHECK(errno == EINVAL);
    errno = 0;
    CHECK(memalign(launder_size(SIZE_MAX), 1) == NULL);
    CHECK(errno == EINVAL);
    return 0;
}
