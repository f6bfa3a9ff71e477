// C23's free_sized and free_aligned_sized take the size and alignment that were asked for, whatever
// they were, and NULL.
// libc: skip glibc has them since 2.43
// promise: 5 22
#include "common.h"

int main(void)
{
    free_sized_fn free_sized = (free_sized_fn)symbol("free_sized");
    free_aligned_sized_fn free_aligned_sized = (free_aligned_sized_fn)symbol("free_aligned_sized");
    CHECK(free_sized && free_aligned_sized);
    free_sized(NULL, 0);
    free_sized(NULL, 100);
    free_aligned_sized(NULL, 64, 100);
    for (size_t size = 0; size < 3000000; size = size + 1 + size / 7) {
        void *p = malloc(size), *q = calloc(1, size), *g = realloc(malloc(10), size + 1);
        CHECK(p && q && g);
        free_sized(p, size);
        free_sized(q, size);
        free_sized(g, size + 1);
        for (size_t alignment = 1; alignment <= 1 << 20; alignment *= 32) {
            p = aligned_alloc(alignment, size);
            CHECK(p);
            free_aligned_sized(p, alignment, size);
        }
    }
    size_t before = mallinfo2().uordblks;
    errno = 77;
    for (int i = 0; i < 100000; i++)
        free_sized(malloc(1000), 1000);
    CHECK(errno == 77);
    CHECK(mallinfo2().uordblks < before + 100000);
    return 0;
}
