// malloc(0) and its kin give a separate block each time, freeable, at no mapping's cost.
// promise: 10 21
#include "common.h"

enum { N = 30000 };
static void *block[N];

static int by_address(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

int main(void)
{
    size_t before = mapping_count();
    for (int i = 0; i < N; i++) {
        void *p = NULL;
        switch (i % 6) {
        case 0: p = malloc(launder_size(0)); break;
        case 1: p = calloc(launder_size(0), 8); break;
        case 2: p = calloc(8, launder_size(0)); break;
        case 3: p = realloc(NULL, launder_size(0)); break;
        case 4: p = aligned_alloc(64, launder_size(0)); break;
        case 5: CHECK(posix_memalign(&p, 32, launder_size(0)) == 0); break;
        }
        CHECK(p);
        block[i] = p;
    }
    CHECK(mapping_count() < before + 100);
    qsort(block, N, sizeof block[0], by_address);
    for (int i = 1; i < N; i++)
        CHECK(block[i] != block[i - 1]);
    for (int i = 0; i < N; i++)
        free(block[i]);
    return 0;
}
