// jemalloc's calls about blocks do what its manual says, at every size and alignment.
// libc: skip it has no such calls
// musl: skip weak names take nothing out of an archive
#include "jemalloc.h"

static int zero(const unsigned char *p, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (p[i])
            return 0;
    return 1;
}

/* A block that was full of other bytes before. */
static void soil(size_t size, int flags)
{
    unsigned char *p = mallocx(size, flags);
    CHECK(p);
    memset(p, 0xEE, sallocx(p, flags));
    dallocx(p, flags);
}

static void one(size_t size, int flags)
{
    size_t align = (size_t)1 << (flags & 63);
    soil(size, flags & ~ZERO);
    unsigned char *p = mallocx(size, flags);
    CHECK(p && (uintptr_t)p % align == 0);
    size_t usable = sallocx(p, flags);
    CHECK(usable >= size && usable == malloc_usable_size(p));
    CHECK(usable == nallocx(size, flags));
    /* All usable bytes are zero, because rallocx clears only those after them. */
    CHECK(!(flags & ZERO) || zero(p, 0, usable));
    fill(p, size, 1);

    /* Larger: the old bytes stay, and those after the old usable size are zero. */
    size_t larger = size + size / 2 + 1;
    soil(larger, flags & ~ZERO);
    p = rallocx(p, larger, flags);
    CHECK(p && (uintptr_t)p % align == 0);
    CHECK(filled(p, size, 1));
    size_t grown = sallocx(p, flags);
    CHECK(grown >= larger);
    CHECK(!(flags & ZERO) || zero(p, usable, grown));

    /* In place: never less than the size that is reported, whether it grew or not. */
    size_t in_place = xallocx(p, larger + 1, 100, flags);
    CHECK(in_place == sallocx(p, flags) && filled(p, size, 1));
    CHECK(in_place >= larger);
    memset(p, 2, in_place);
    size_t smaller = size / 2 + 1;
    in_place = xallocx(p, smaller, 0, flags);
    CHECK(in_place == sallocx(p, flags) && in_place >= smaller);

    /* Smaller, and back by the size that was asked for last. */
    p = rallocx(p, smaller, flags & ~ZERO);
    CHECK(p && (uintptr_t)p % align == 0);
    CHECK(sallocx(p, flags) >= smaller);
    sdallocx(p, smaller, flags);

    /* Any size up to the real one may be said. */
    p = mallocx(size, flags);
    sdallocx(p, sallocx(p, flags), flags);
    p = mallocx(size, flags);
    sdallocx(p, xallocx(p, smaller, 0, flags), flags);
    p = mallocx(size, flags);
    dallocx(p, 0);
}

int main(void)
{
    CHECK(mallocx && rallocx && xallocx && sallocx && dallocx && sdallocx && nallocx);
    for (size_t size = 1; size < 1000000; size = size + 1 + size / 5) {
        one(size, 0);
        one(size, ZERO);
        one(size, ZERO | TCACHE_NONE | ARENA(0));
        for (int shift = 1; shift <= 21; shift += 3) {
            one(size, LG_ALIGN(shift));
            one(size, LG_ALIGN(shift) | ZERO);
        }
    }
    /* More than there can be, and more than there is. */
    CHECK(!mallocx(launder_size((size_t)PTRDIFF_MAX + 1), 0));
    CHECK(!mallocx(launder_size(SIZE_MAX), ZERO));
    CHECK(!mallocx(100, LG_ALIGN(63)) && !mallocx(100, LG_ALIGN(63) | ZERO));
    CHECK(nallocx((size_t)PTRDIFF_MAX + 1, 0) == 0 && nallocx(SIZE_MAX, 0) == 0);
    CHECK(nallocx(100, LG_ALIGN(63)) == 0);
    unsigned char *p = mallocx(100, 0);
    fill(p, 100, 3);
    size_t usable = sallocx(p, 0);
    CHECK(!rallocx(p, launder_size((size_t)PTRDIFF_MAX + 1), 0));
    CHECK(!rallocx(p, launder_size(SIZE_MAX), ALIGN(4096) | ZERO));
    CHECK(xallocx(p, (size_t)PTRDIFF_MAX, 0, 0) == usable);
    CHECK(xallocx(p, 100, SIZE_MAX - 100, 0) >= 100);
    CHECK(filled(p, 100, 3));
    dallocx(p, 0);
    return 0;
}
