// Every size from 1 byte up is served, aligned to 16, writable to its last byte, and apart from
// every other live block.
// promise: 6 21 22
#include "common.h"

enum { N = 20000 };
static struct {
    unsigned char *p;
    size_t size;
} block[N];

static int by_address(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

int main(void)
{
    struct rng r = {88172645463325252ULL};
    for (int i = 0; i < N; i++) {
        size_t size = i < 5000 ? (size_t)i + 1 : 1 + rng_below(&r, i % 50 ? 3000 : 300000);
        block[i].p = malloc(size);
        block[i].size = size;
        CHECK(block[i].p);
        CHECK((uintptr_t)block[i].p % 16 == 0);
        fill(block[i].p, size, (uint64_t)i);
    }
    for (int i = 0; i < N; i++)
        CHECK(filled(block[i].p, block[i].size, (uint64_t)i));
    qsort(block, N, sizeof block[0], by_address);
    for (int i = 1; i < N; i++)
        CHECK(block[i - 1].p + malloc_usable_size(block[i - 1].p) <= block[i].p);
    for (int i = 0; i < N; i++)
        free(block[i].p);
    free(NULL);
    return 0;
}
