// Every alignment from 1 byte to 128 MiB is honoured, at sizes on both sides of it, with all
// blocks live at once and apart.
// promise: 21
#include "common.h"

int main(void)
{
    static const size_t sizes[] = {1, 24, 700, 5000, 140000};
    enum { S = sizeof sizes / sizeof *sizes };
    unsigned char *p[28][S];
    for (int bit = 0; bit <= 27; bit++)
        for (int s = 0; s < S; s++) {
            size_t alignment = (size_t)1 << bit;
            p[bit][s] = memalign(alignment, sizes[s]);
            CHECK(p[bit][s]);
            CHECK((uintptr_t)p[bit][s] % alignment == 0);
            fill(p[bit][s], sizes[s], (uint64_t)(bit * S + s));
        }
    for (int bit = 0; bit <= 27; bit++)
        for (int s = 0; s < S; s++) {
            CHECK(filled(p[bit][s], sizes[s], (uint64_t)(bit * S + s)));
            CHECK(malloc_usable_size(p[bit][s]) >= sizes[s]);
            unsigned char *q = realloc(p[bit][s], sizes[s] * 2);
            CHECK(q);
            CHECK(filled(q, sizes[s], (uint64_t)(bit * S + s)));
            free(q);
        }
    for (int i = 0; i < 200; i++) {
        void *q = memalign((size_t)1 << 27, (size_t)1 << 20);
        CHECK(q && (uintptr_t)q % ((size_t)1 << 27) == 0);
        memset(q, 1, 4096);
        free(q);
    }
    return 0;
}
