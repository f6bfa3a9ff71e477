/* Whether slots that one call site has freed are handed out to another: of those in "sites.h", unless other sites are
 * there already. */
#ifndef SITES_ARE_THERE
#include "sites.h"
#endif

enum { N = 13000 };
static void *from_a[N], *from_b[N];

HELPER int by_address(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

/* How many blocks of B were A's. */
HELPER size_t shared(void)
{
    size_t n = 0;
    for (int i = 0; i < N; i++)
        n += bsearch(&from_b[i], from_a, N, sizeof from_a[0], by_address) != NULL;
    return n;
}

/* The one place from which sites are called: a long function, so that no site is taken for a wrapper of it. */
NOINLINE void *ask(int n, size_t size)
{
    void *p = site[n](size);
    __asm__ volatile(".skip 600, 0x90");
    return p;
}

HELPER size_t pair(int a, int b, size_t size)
{
    size_t reused = 0;
    for (int i = 0; i < N; i++)
        from_a[i] = ask(a, size);
    qsort(from_a, N, sizeof from_a[0], by_address);
    /* Half of A's blocks live; then none; then none and trimmed. */
    for (int phase = 0; phase < 3; phase++) {
        for (int i = 0; i < N; i++)
            if (phase == 0 ? i % 2 : phase == 1 && i % 2 == 0)
                free(from_a[i]);
        if (phase == 2)
            purge_all();
        for (int i = 0; i < N; i++)
            from_b[i] = ask(b, size);
        reused += shared();
        for (int i = 0; i < N; i++)
            free(from_b[i]);
    }
    return reused;
}

/* Of the pairs of sites, how many do not share a single slot. */
HELPER int disjoint_pairs(size_t size)
{
    int disjoint = 0;
    for (int p = 0; p < SITES / 2; p++)
        disjoint += pair(2 * p, 2 * p + 1, size) == 0;
    return disjoint;
}
