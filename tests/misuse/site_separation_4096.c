// With 4096 partitions two sites all but never share: of eight pairs at most one may.
// env: TOFT_PARTITIONS=4096
// run: 64 0
// run: 1000 0
// timeout: 120
// libc: skip glibc gives anything to anyone
// promise: 15 17
#include "sites.h"

enum { N = 13000 };
static void *from_a[N], *from_b[N];

static int by_address(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

/* How many blocks of B were A's. */
static size_t shared(void)
{
    size_t n = 0;
    for (int i = 0; i < N; i++)
        n += bsearch(&from_b[i], from_a, N, sizeof from_a[0], by_address) != NULL;
    return n;
}

static size_t pair(int a, int b, size_t size)
{
    size_t reused = 0;
    for (int i = 0; i < N; i++)
        from_a[i] = site[a](size);
    qsort(from_a, N, sizeof from_a[0], by_address);
    /* Half of A's blocks live; then none; then none and trimmed. */
    for (int phase = 0; phase < 3; phase++) {
        for (int i = 0; i < N; i++)
            if (phase == 0 ? i % 2 : phase == 1 && i % 2 == 0)
                free(from_a[i]);
        if (phase == 2)
            malloc_trim(0);
        for (int i = 0; i < N; i++)
            from_b[i] = site[b](size);
        reused += shared();
        for (int i = 0; i < N; i++)
            free(from_b[i]);
    }
    return reused;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t size = strtoul(argv[1], NULL, 10);
    site_function = atoi(argv[2]);
    int disjoint = 0;
    for (int p = 0; p < SITES / 2; p++) {
        size_t reused = pair(2 * p, 2 * p + 1, size);
        disjoint += reused == 0;
    }
    CHECK(disjoint >= 7);
    return 0;
}
