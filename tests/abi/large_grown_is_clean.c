// build: secure walls
// What a large block gains by realloc holds nothing that the library has written there, and is
// zero.
// promise: 11
// libc: skip it does not promise that
#include "common.h"

int main(void)
{
    struct rng r = {3};
    for (int i = 0; i < 300; i++) {
        size_t size = 131073 + rng_below(&r, 300000);
        unsigned char *p = malloc(size);
        CHECK(p);
        memset(p, 0xEE, size);
        for (int step = 0; step < 4; step++) {
            size_t more = size + 1 + rng_below(&r, step % 2 ? 300000 : 5000);
            p = realloc(p, more);
            CHECK(p);
            for (size_t at = 0; at < more; at++)
                CHECK(p[at] == (at < size ? 0xEE : 0));
            memset(p, 0xEE, more);
            size = more;
        }
        free(p);
    }
    return 0;
}
