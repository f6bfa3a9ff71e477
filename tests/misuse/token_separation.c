// Blocks that are asked for at one place with different tokens never share a slot, and those of one
// token, asked for at different places, do: by each of the calls that take a token.
// env: TOFT_PARTITIONS=exact
// run: 64 0
// run: 1000 1
// run: 64 2
// run: 1000 3
// libc: skip it has no partitions
// promise: 15
#include "common.h"
#include "../../crates/toft-preload/include/toft.h"

static int entry;
static void *(*by_malloc)(size_t, uint64_t);
static void *(*by_calloc)(size_t, size_t, uint64_t);
static void *(*by_aligned)(size_t, size_t, uint64_t);
static void *(*by_realloc)(void *, size_t, uint64_t);

NOINLINE void *of_token(size_t size, uint64_t token)
{
    void *p = entry == 0   ? by_malloc(size, token)
              : entry == 1 ? by_calloc(1, size, token)
              : entry == 2 ? by_aligned(64, size, token)
                           : by_realloc(NULL, size, token);
    CHECK(p);
    NO_TAIL_CALL();
    return p;
}

#define SITE(n)                                                                                    \
    NOINLINE void *site_##n(size_t size) { return of_token(size, n); }
#include "site_table.h"
#include "pairs.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    by_malloc = symbol("toft_malloc_at");
    by_calloc = symbol("toft_calloc_at");
    by_aligned = symbol("toft_aligned_alloc_at");
    by_realloc = symbol("toft_realloc_at");
    size_t size = strtoul(argv[1], NULL, 10);
    entry = atoi(argv[2]);
    CHECK(disjoint_pairs(size) == SITES / 2);
    /* One token, at two places. */
    for (int i = 0; i < N; i++)
        from_a[i] = of_token(size, 1234567);
    qsort(from_a, N, sizeof from_a[0], by_address);
    for (int i = 0; i < N; i++)
        free(from_a[i]);
    for (int i = 0; i < N; i++)
        from_b[i] = entry == 0 ? by_malloc(size, 1234567) : by_calloc(1, size, 1234567);
    if (entry != 2)
        CHECK(shared() > 0);
    for (int i = 0; i < N; i++)
        free(from_b[i]);
    return 0;
}
