// All malloc_usable_size bytes can be used, the number never changes while the block lives, and
// realloc to it (or to less that stays in the class) does not move the block.
// promise: 21
#include "common.h"

int main(void)
{
    CHECK(malloc_usable_size(NULL) == 0);
    /* On Toft nothing at all can be used of a zero-size block. */
    void *nothing = malloc(launder_size(0));
    size_t least = malloc_usable_size(nothing) == 0;
    free(nothing);
    for (size_t size = least; size < 4000000; size = size + 1 + size / 11) {
        unsigned char *p = malloc(size);
        CHECK(p);
        size_t usable = malloc_usable_size(p);
        CHECK(usable >= size);
        unsigned char *neighbour = malloc(size);
        CHECK(neighbour);
        fill(neighbour, size, 5);
        fill(p, usable, 4);
        CHECK(filled(neighbour, size, 5));
        CHECK(malloc_usable_size(p) == usable);
        /* Of no bytes there is nothing to keep, and realloc frees it. */
        unsigned char *q = usable ? realloc(p, usable) : p;
        /* glibc may move a block that has its own mapping. */
        CHECK(q && (q == p || (!on_toft() && size > 100000)));
        CHECK(filled(q, usable, 4));
        usable = q == p ? usable : malloc_usable_size(q);
        CHECK(malloc_usable_size(q) == usable);
        free(neighbour);
        CHECK(malloc_usable_size(q) == usable);
        free(q);
        for (size_t alignment = 64; alignment <= 65536; alignment *= 32) {
            p = memalign(alignment, size);
            CHECK(p);
            usable = malloc_usable_size(p);
            CHECK(usable >= size);
            memset(p, 1, usable);
            CHECK(malloc_usable_size(p) == usable);
            q = usable ? realloc(p, usable) : (void *)p;
            CHECK(q && (q == p || !on_toft()));
            CHECK(malloc_usable_size(q) == usable || !on_toft());
            free(q);
        }
    }
    return 0;
}
