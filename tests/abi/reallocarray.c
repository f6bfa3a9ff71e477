// reallocarray multiplies with a check: a wrapped product is ENOMEM and leaves the block alone.
// promise: 20
#include "common.h"

int main(void)
{
    unsigned char *p = reallocarray(NULL, 10, 10);
    CHECK(p);
    fill(p, 100, 1);
    static const size_t n[][2] = {
        {SIZE_MAX, 2}, {2, SIZE_MAX}, {SIZE_MAX / 2 + 1, 2}, {(size_t)1 << 32, (size_t)1 << 32},
        {SIZE_MAX, SIZE_MAX}, {(size_t)1 << 63, 1}, {SIZE_MAX, 1}, {SIZE_MAX / 16 + 2, 16},
    };
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        errno = 0;
        CHECK(reallocarray(p, launder_size(n[i][0]), launder_size(n[i][1])) == NULL);
        CHECK(errno == ENOMEM);
        CHECK(filled(p, 100, 1));
    }
    p = reallocarray(p, 1000, 8);
    CHECK(p);
    CHECK(filled(p, 100, 1));
    errno = 5;
    CHECK(reallocarray(p, launder_size(0), 8) == NULL);
    CHECK(errno == 5);
    return 0;
}
