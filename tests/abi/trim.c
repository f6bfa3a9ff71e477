// malloc_trim gives memory back without hurting what is live: 10 000 blocks, 12 of 13 freed.
// promise: 22
#include "common.h"

enum { N = 10000 };
static unsigned char *block[N];

int main(void)
{
    for (int i = 0; i < N; i++) {
        block[i] = malloc(900 + (size_t)i % 200);
        CHECK(block[i]);
        fill(block[i], 900, (uint64_t)i);
    }
    for (int i = 0; i < N; i++)
        if (i % 13) {
            free(block[i]);
            block[i] = NULL;
        }
    int rc = malloc_trim(0);
    CHECK(rc == 0 || rc == 1);
    rc = malloc_trim(launder_size(SIZE_MAX));
    CHECK(rc == 0 || rc == 1);
    for (int i = 0; i < N; i++) {
        if (block[i])
            CHECK(filled(block[i], 900, (uint64_t)i));
        else {
            block[i] = malloc(900 + (size_t)i % 200);
            CHECK(block[i]);
            fill(block[i], 900, (uint64_t)i);
        }
    }
    for (int i = 0; i < N; i++) {
        CHECK(filled(block[i], 900, (uint64_t)i));
        free(block[i]);
    }
    rc = malloc_trim(0);
    CHECK(rc == 0 || rc == 1);
    free(malloc(100));
    return 0;
}
