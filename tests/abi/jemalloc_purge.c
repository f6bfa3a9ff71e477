// arena.N.purge returns free memory to the system.
// env: TOFT_RECLAIM=off
// libc: skip it has no such calls
// musl: skip weak names take nothing out of an archive
// aarch64: skip what is resident is the emulator's
#include "jemalloc.h"

enum { BLOCKS = 4000, SIZE = 16000 };

int main(void)
{
    static char *block[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(block[i] = malloc(SIZE));
        memset(block[i], 1, SIZE);
    }
    size_t full = rss_bytes();
    for (int i = 0; i < BLOCKS; i++)
        free(block[i]);
    CHECK(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0) == 0);
    CHECK(rss_bytes() > full / 2);
    CHECK(mallctl("arena.4096.purge", NULL, NULL, NULL, 0) == 0);
    CHECK(rss_bytes() < full / 2);
    return 0;
}
