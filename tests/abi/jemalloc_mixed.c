// A program may mix malloc, realloc and free with jemalloc's calls.
// libc: skip it has no such calls
// musl: skip weak names take nothing out of an archive
#include "jemalloc.h"

int main(void)
{
    for (size_t size = 1; size < 2000000; size = size + 1 + size / 5) {
        unsigned char *p = malloc(size);
        CHECK(p);
        fill(p, size, 1);
        p = rallocx(p, 3 * size, 0);
        CHECK(p && filled(p, size, 1));
        sdallocx(p, 3 * size, 0);

        p = mallocx(size, ALIGN(256) | ZERO);
        CHECK(p && (uintptr_t)p % 256 == 0);
        fill(p, size, 2);
        p = realloc(p, 2 * size);
        CHECK(p && filled(p, size, 2));
        free(p);

        p = aligned_alloc(64, size);
        CHECK(p && sallocx(p, 0) == malloc_usable_size(p));
        dallocx(p, 0);
        p = calloc(1, size);
        CHECK(p);
        p = rallocx(p, size + 50, ALIGN(4096));
        CHECK(p && (uintptr_t)p % 4096 == 0 && p[0] == 0 && p[size - 1] == 0);
        free(p);
    }
    /* jemalloc's size class for nothing is of some bytes. */
    char *p = mallocx(0, 0);
    CHECK(p && nallocx(0, 0) >= 1);
    p = rallocx(p, 0, 0);
    CHECK(p);
    p[0] = 1;
    sdallocx(p, 0, 0);
    return 0;
}
