// build: default freed large blocks wait
// A freed aligned block serves the same request again: memory does not grow under a loop of them,
// at small and at large sizes and alignments.
// promise: 21
#include "common.h"

enum { N = 16 };

/* The same call: another one may be given other memory on purpose. */
NOINLINE void *take(size_t alignment, size_t size)
{
    void *p = memalign(alignment, size);
    CHECK(p && (uintptr_t)p % alignment == 0);
    NO_TAIL_CALL();
    return p;
}

static void loop(size_t alignment, size_t size)
{
    void *first[N], *again[N];
    int reused = 0;
    for (int i = 0; i < N; i++)
        first[i] = take(alignment, size);
    for (int i = 0; i < N; i++)
        free(first[i]);
    /* Not at once: an allocator may have others in stock. */
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < N; i++) {
            again[i] = take(alignment, size);
            for (int k = 0; k < N; k++)
                reused += first[k] == again[i];
        }
        for (int i = 0; i < N; i++)
            free(again[i]);
    }
    /* glibc coalesces free blocks and gives those past 128 KiB a new mapping each. */
    CHECK(reused > 0 || !on_toft());
    size_t rss = rss_bytes();
    for (int i = 0; i < 20000; i++) {
        unsigned char *p = take(alignment, size);
        p[0] = p[size - 1] = 1;
        free(p);
    }
    CHECK(rss_bytes() < rss + (4 << 20));
}

int main(void)
{
    static const size_t alignments[] = {64, 256, 4096, 65536, 1 << 20};
    static const size_t sizes[] = {8, 100, 1000, 5000, 70000, 200000, 3000000};
    for (size_t a = 0; a < sizeof alignments / sizeof *alignments; a++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            loop(alignments[a], sizes[s]);
    return 0;
}
