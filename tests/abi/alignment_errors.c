// Each function with an alignment, at each kind of alignment, gives a block at a multiple of it or
// the error that glibc 2.36 gives. Where glibc's versions differ, newer ones are followed: see
// aligned_alloc.c for alignments that are no power of two.
// promise: 20 21
#include "common.h"

enum { FITS = 0 };

/* What memalign sets, and what posix_memalign returns. */
static const struct {
    size_t alignment;
    int memalign, posix;
} table[] = {
    {0, FITS, EINVAL},
    {1, FITS, EINVAL},
    {2, FITS, EINVAL},
    {3, FITS, EINVAL},
    {4, FITS, EINVAL},
    {5, FITS, EINVAL},
    {8, FITS, FITS},
    {12, FITS, EINVAL},
    {15, FITS, EINVAL},
    {16, FITS, FITS},
    {17, FITS, EINVAL},
    {24, FITS, EINVAL},
    {32, FITS, FITS},
    {48, FITS, EINVAL},
    {1000, FITS, EINVAL},
    {4095, FITS, EINVAL},
    {4096, FITS, FITS},
    {4097, FITS, EINVAL},
    {65536, FITS, FITS},
    {100000, FITS, EINVAL},
    {(size_t)1 << 21, FITS, FITS},
    {((size_t)1 << 62) - 1, ENOMEM, EINVAL},
    {(size_t)1 << 62, ENOMEM, ENOMEM},
    {((size_t)1 << 62) + 1, ENOMEM, EINVAL},
    {((size_t)1 << 63) - 1, ENOMEM, EINVAL},
    {(size_t)1 << 63, ENOMEM, ENOMEM},
    {((size_t)1 << 63) + 1, EINVAL, EINVAL},
    {SIZE_MAX - 1, EINVAL, EINVAL},
    {SIZE_MAX, EINVAL, EINVAL},
};

static size_t power_of_two(size_t alignment)
{
    size_t power = 1;
    while (power && power < alignment)
        power <<= 1;
    return power;
}

static void check(const char *name, size_t alignment, size_t size, void *p, int error, int wanted)
{
    /* Alignments come before sizes. */
    if (!wanted && size > PTRDIFF_MAX / 2)
        wanted = ENOMEM;
    int is_aligned = !p || (uintptr_t)p % power_of_two(alignment) == 0;
    if (!p != !!wanted || (!p && error != wanted) || !is_aligned) {
        fprintf(stderr, "%s(%#zx, %#zx): %p, %d and not %d\n", name, alignment, size, p, error,
                wanted);
        CHECK(!"as in the table");
    }
    if (p && size)
        memset(p, 1, size);
    free(p);
}

int main(void)
{
    static const size_t sizes[] = {0, 1, 100, 5000, 200000, PTRDIFF_MAX, SIZE_MAX - 4096, SIZE_MAX};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t size = sizes[s];
        void *p;
        for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
            size_t alignment = table[i].alignment;
            errno = 0;
            p = memalign(alignment, size);
            check("memalign", alignment, size, p, errno, table[i].memalign);
            if (power_of_two(alignment) == alignment) {
                errno = 0;
                p = aligned_alloc(alignment, size);
                check("aligned_alloc", alignment, size, p, errno, table[i].memalign);
            }
            void *const untouched = &p;
            p = untouched;
            int result = posix_memalign(&p, alignment, size);
            CHECK(!result || p == untouched);
            check("posix_memalign", alignment, size, result ? NULL : p, result, table[i].posix);
        }
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        errno = 0;
        p = valloc(size);
        check("valloc", page, size, p, errno, FITS);
        errno = 0;
        p = pvalloc(size);
        check("pvalloc", page, size, p, errno, FITS);
    }
    return 0;
}
