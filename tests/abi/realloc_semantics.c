// realloc keeps content over growth and shrinkage through all tiers, allocates for NULL, frees for
// size 0 (and returns NULL, errno untouched), and leaves the old block alone when it fails.
// promise: 21
#include "common.h"

int main(void)
{
    struct rng r = {42};
    for (int round = 0; round < 400; round++) {
        size_t size = 1 + rng_below(&r, 100);
        unsigned char *p = realloc(NULL, size);
        CHECK(p);
        fill(p, size, 9);
        for (int step = 0; step < 24; step++) {
            size_t limit = (size_t)16 << rng_below(&r, round % 20 ? 15 : 20);
            size_t next = 1 + rng_below(&r, limit);
            p = realloc(p, next);
            CHECK(p);
            CHECK((uintptr_t)p % 16 == 0);
            CHECK(filled(p, size < next ? size : next, 9));
            fill(p, next, 9);
            size = next;
        }
        errno = 1234;
        CHECK(realloc(p, launder_size(0)) == NULL);
        CHECK(errno == 1234);
    }
    for (size_t size = 10; size < 10000000; size *= 10) {
        unsigned char *p = malloc(size);
        CHECK(p);
        fill(p, size, 3);
        errno = 0;
        CHECK(realloc(p, launder_size((size_t)PTRDIFF_MAX + 1)) == NULL);
        CHECK(errno == ENOMEM);
        errno = 0;
        CHECK(realloc(p, launder_size((size_t)1 << 60)) == NULL);
        CHECK(errno == ENOMEM);
        CHECK(filled(p, size, 3));
        free(p);
    }
    return 0;
}
