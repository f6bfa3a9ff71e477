// An address keeps its size class for the life of the process: nothing that one call site frees
// comes back to the same call site at another size, also after a trim.
// libc: skip glibc coalesces
// promise: 15
#include "common.h"

enum { N = 20000, REGION = 4096 };
static uintptr_t first[N];

static int by_address(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

NOINLINE void *take(size_t size)
{
    void *p = malloc(size);
    CHECK(p);
    NO_TAIL_CALL();
    return p;
}

static int was_first(uintptr_t p)
{
    size_t low = 0, high = N;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (first[middle] + 64 <= p)
            low = middle + 1;
        else
            high = middle;
    }
    return low < N && first[low] <= p;
}

int main(void)
{
    for (int i = 0; i < N; i++)
        first[i] = (uintptr_t)take(64);
    qsort(first, N, sizeof first[0], by_address);
    for (int i = 0; i < N; i++)
        free((void *)first[i]);
    purge_all();
    static const size_t sizes[] = {16, 48, 80, 200, 1000, 5000, 60000, 300000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int i = 0; i < (sizes[s] > 50000 ? 200 : 5000); i++)
            CHECK(!was_first((uintptr_t)take(sizes[s])));
    return 0;
}
