// Zero-size blocks: each has its own address, at a multiple of 16 or of the requested alignment.
// Every read and write faults, before the block is freed and after. realloc makes a block with
// bytes of it. They cost no mapping, and no address comes back soon.
// timeout: 120
// promise: 10 13
// libc: skip it has bytes there
#include "faults.h"

enum { N = 200000 };
static void *block[N];

static int by_address(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

NOINLINE void *one(int i)
{
    void *p = NULL;
    switch (i % 5) {
    case 0: return malloc(launder_size(0));
    case 1: return calloc(launder_size(0), 8);
    case 2: return calloc(8, launder_size(0));
    case 3: return realloc(NULL, launder_size(0));
    default: CHECK(posix_memalign(&p, 16, launder_size(0)) == 0); return p;
    }
}

int main(void)
{
    catch_faults();
    free(one(0));
    size_t mappings = mapping_count(), rss = rss_bytes();
    for (int i = 0; i < N; i++) {
        CHECK((block[i] = one(i)));
        CHECK((uintptr_t)block[i] % 16 == 0 && malloc_usable_size(block[i]) == 0);
    }
    CHECK(mapping_count() < mappings + 4);
    CHECK(rss_bytes() < rss + sizeof block + (1 << 20));
    for (int i = 0; i < N; i += 97)
        CHECK(faults(block[i]) && faults_on_write(block[i]) && faults((char *)block[i] + 15));
    qsort(block, N, sizeof block[0], by_address);
    for (int i = 1; i < N; i++)
        CHECK(block[i] != block[i - 1]);
    for (int i = 0; i < N; i++)
        free(block[i]);
    CHECK(faults(block[7]));

    void *p = one(0);
    free(p);
    for (int i = 0; i < 8000; i++) {
        void *q = one(i);
        CHECK(q != p);
        free(q);
    }

    char *q = realloc(one(0), 100);
    CHECK(q && malloc_usable_size(q) >= 100);
    memset(q, 1, 100);
    free(q);
    for (size_t align = 32; align <= 4 << 20; align *= 2) {
        CHECK((p = aligned_alloc(align, launder_size(0))));
        CHECK((uintptr_t)p % align == 0 && faults(p) && faults_on_write(p));
        free(p);
    }
    CHECK(mapping_count() < mappings + 10);
    return 0;
}
