// Every entry point refuses every size past PTRDIFF_MAX and every rounding that wraps, with ENOMEM
// and no other effect, at every alignment.
// promise: 20
#include "common.h"

static void refuse(size_t size)
{
    size = launder_size(size);
#define NO(call)                                                                                   \
    do {                                                                                           \
        errno = 0;                                                                                 \
        CHECK((call) == NULL);                                                                     \
        CHECK(errno == ENOMEM);                                                                    \
    } while (0)
    NO(malloc(size));
    NO(calloc(1, size));
    NO(calloc(size, 1));
    NO(reallocarray(NULL, size, 1));
    NO(realloc(NULL, size));
    NO(valloc(size));
    NO(pvalloc(size));
    unsigned char *p = malloc(16), *large = malloc(300000);
    CHECK(p && large);
    fill(p, 16, 1);
    fill(large, 300000, 2);
    NO(realloc(p, size));
    NO(reallocarray(p, 1, size));
    NO(realloc(large, size));
    CHECK(filled(p, 16, 1));
    CHECK(filled(large, 300000, 2));
    free(p);
    free(large);
    for (size_t n = 2; n <= 64; n *= 2) {
        NO(calloc(size / n + 1, n));
        NO(reallocarray(NULL, size / n + 1, n));
    }
    for (int bit = 3; bit < 63; bit++) {
        size_t alignment = (size_t)1 << bit;
        NO(memalign(alignment, size));
        NO(aligned_alloc(alignment, size));
        void *out = (void *)0x77;
        CHECK(posix_memalign(&out, alignment, size) == ENOMEM);
        CHECK(out == (void *)0x77);
    }
}

int main(void)
{
    struct mallinfo2 before = mallinfo2();
    for (size_t i = 0; i < 50; i++)
        refuse(SIZE_MAX - i);
    for (size_t i = 50; i < 70000; i += 997)
        refuse(SIZE_MAX - i);
    for (size_t i = 1; i < 30; i++)
        refuse((size_t)PTRDIFF_MAX + i);
    for (int bit = 13; bit < 62; bit++) {
        refuse(SIZE_MAX - ((size_t)1 << bit));
        refuse(SIZE_MAX - ((size_t)1 << bit) + 1);
    }
    /* Sizes that no address space has, at alignments whose sum wraps. */
    for (int bit = 3; bit < 63; bit++)
        for (size_t less = 0; less < 40000; less += 4095) {
            errno = 0;
            CHECK(memalign((size_t)1 << bit, (size_t)PTRDIFF_MAX - less) == NULL);
            CHECK(errno == ENOMEM);
        }
    CHECK(mallinfo2().uordblks <= before.uordblks + 10000);
    return 0;
}
