// calloc of a huge block relies on the kernel's zeros and touches none of it; also when a dirty
// block of that size was freed just before.
// promise: 21
#include "common.h"

int main(void)
{
    size_t size = (size_t)1 << 30;
    free(malloc(100));
    size_t before = rss_bytes();
    unsigned char *p = calloc(1, launder_size(size));
    CHECK(p);
    CHECK(rss_bytes() < before + (4 << 20));
    CHECK(p[0] == 0 && p[size / 2] == 0 && p[size - 1] == 0);
    free(p);
    for (int i = 0; i < 3; i++) {
        p = malloc(64 << 20);
        CHECK(p);
        memset(p, 7, 64 << 20);
        free(p);
        p = calloc(64, 1 << 20);
        CHECK(p);
        for (size_t at = 0; at < 64 << 20; at += 512)
            CHECK(p[at] == 0);
        free(p);
    }
    return 0;
}
