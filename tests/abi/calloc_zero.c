// calloc gives zeros, also from memory that was written and freed, in every tier; products that
// wrap are refused with ENOMEM.
// promise: 20 21
#include "common.h"

static const size_t sizes[] = {1, 16, 40, 250, 1000, 1024, 4000, 20000, 100000, 200000, 3000000};

static int all_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i])
            return 0;
    return 1;
}

int main(void)
{
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int round = 0; round < 60; round++) {
            unsigned char *p[8];
            /* One site for dirt and one for calloc, so that blocks can come back to calloc: the
             * dirt goes in through the calloc'ed block itself. */
            for (int i = 0; i < 8; i++) {
                p[i] = calloc(round % 2 ? 1 : sizes[s], round % 2 ? sizes[s] : 1);
                CHECK(p[i]);
                CHECK(all_zero(p[i], sizes[s]));
                memset(p[i], 0xA5, malloc_usable_size(p[i]));
            }
            for (int i = 0; i < 8; i++)
                free(p[(i * 5 + round) % 8]);
        }

    static const size_t big[] = {SIZE_MAX, SIZE_MAX / 2 + 1, SIZE_MAX / 3, (size_t)1 << 33};
    for (size_t i = 0; i < sizeof big / sizeof *big; i++)
        for (size_t j = 0; j < sizeof big / sizeof *big; j++) {
            errno = 0;
            CHECK(calloc(launder_size(big[i]), launder_size(big[j])) == NULL);
            CHECK(errno == ENOMEM);
        }
    errno = 0;
    CHECK(calloc(launder_size(SIZE_MAX / 8 + 2), 8) == NULL);
    CHECK(errno == ENOMEM);
    return 0;
}
