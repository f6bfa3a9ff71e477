// With RLIMIT_AS at what the process already has, every entry point fails with ENOMEM, and works
// again when the limit is lifted.
// promise: 26
#include "common.h"

#define FAILS(call)                                                                                \
    do {                                                                                           \
        errno = 0;                                                                                 \
        CHECK((call) == NULL && errno == ENOMEM);                                                  \
    } while (0)

int main(void)
{
    char *keep = malloc(1000);
    CHECK(keep);
    fill(keep, 1000, 1);
    struct rlimit old, limit;
    CHECK(getrlimit(RLIMIT_AS, &old) == 0);
    limit.rlim_cur = vsz_bytes();
    limit.rlim_max = old.rlim_max;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    /* More than what a heap has in stock. */
    size_t big = launder_size(512 << 20);
    FAILS(malloc(big));
    FAILS(calloc(1, big));
    FAILS(realloc(NULL, big));
    FAILS(realloc(keep, big));
    FAILS(reallocarray(keep, 1024, big / 1024));
    FAILS(memalign(64, big));
    FAILS(aligned_alloc(1 << 20, big));
    FAILS(valloc(big));
    FAILS(pvalloc(big));
    void *out = (void *)0x9;
    CHECK(posix_memalign(&out, 64, big) == ENOMEM && out == (void *)0x9);
    CHECK(filled(keep, 1000, 1));
    CHECK(setrlimit(RLIMIT_AS, &old) == 0);
    char *p = malloc(big);
    CHECK(p);
    p[0] = p[big - 1] = 1;
    free(p);
    keep = realloc(keep, 1 << 20);
    CHECK(keep && filled(keep, 1000, 1));
    free(keep);
    return 0;
}
