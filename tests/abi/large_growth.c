// A large block grows by realloc to 1 GiB and keeps its content; growth moves page tables and
// copies nothing, so no step makes more than a few pages resident.
// timeout: 120
// promise: 21
// aarch64: skip the figures include the emulator's memory
#include "common.h"

int main(void)
{
    size_t size = 1 << 20, step = (size_t)1 << 26, page = page_size();
    unsigned char *p = malloc(size);
    CHECK(p);
    memset(p, 0x11, size);
    size_t rss = rss_bytes();
    while (size < (size_t)1 << 30) {
        size_t next = size < step ? size * 2 : size + step;
        p = realloc(p, next);
        CHECK(p);
        CHECK(p[0] == 0x11 && p[(1 << 20) - 1] == 0x11);
        p[next - 1] = (unsigned char)(next >> 20);
        size = next;
    }
    CHECK(rss_bytes() < rss + 40 * 4 * page + (2 << 20));
    for (size_t i = 0; i < 1 << 20; i++)
        CHECK(p[i] == 0x11);

    /* Full of content, 1 GiB moves or grows in place within what copying could not do. */
    for (size_t at = 0; at < size; at += 64 * page)
        memcpy(p + at, &at, sizeof at);
    void *wall[8];
    for (int i = 0; i < 8; i++)
        CHECK((wall[i] = malloc(1 << 20)));
    rss = rss_bytes();
    p = realloc(p, size + (64 << 20));
    CHECK(p);
    CHECK(rss_bytes() < rss + (4 << 20));
    for (size_t at = 0; at < size; at += 64 * page)
        CHECK(memcmp(p + at, &at, sizeof at) == 0);
    p = realloc(p, 1 << 20);
    CHECK(p && rss_bytes() < rss - rss / 4);
    free(p);
    for (int i = 0; i < 8; i++)
        free(wall[i]);
    return 0;
}
