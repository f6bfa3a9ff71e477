// 200 000 small blocks, 20 000 of 24 KiB and 5 000 of 300 KiB live at once need fewer than 10 000
// mappings, and still fewer while they are replaced at random.
// timeout: 120
// promise: 27
#include "common.h"

enum { SMALL = 200000, MEDIUM = 20000, LARGE = 5000, N = SMALL + MEDIUM + LARGE };
static unsigned char *block[N];

static size_t size_of(int i)
{
    return i < SMALL ? 16 + (size_t)i % 500 : i < SMALL + MEDIUM ? 24 << 10 : 300 << 10;
}

int main(void)
{
    for (int i = 0; i < N; i++) {
        CHECK((block[i] = malloc(size_of(i))));
        block[i][0] = (unsigned char)i;
    }
    CHECK(mapping_count() < 10000);
    struct rng r = {5};
    for (int k = 0; k < 50000; k++) {
        int i = (int)rng_below(&r, N), j = SMALL + (int)rng_below(&r, MEDIUM + LARGE);
        CHECK(block[i][0] == (unsigned char)i && block[j][0] == (unsigned char)j);
        free(block[i]);
        if (i != j)
            free(block[j]);
        CHECK((block[i] = malloc(size_of(i))));
        block[i][0] = (unsigned char)i;
        if (i != j) {
            CHECK((block[j] = malloc(size_of(j))));
            block[j][0] = (unsigned char)j;
        }
    }
    CHECK(mapping_count() < 10000);
    for (int i = 0; i < N; i++)
        free(block[i]);
    return 0;
}
