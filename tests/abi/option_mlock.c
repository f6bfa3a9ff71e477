// TOFT_MAPPINGS=lock: what blocks lie on is locked, once it is there; without it nothing is.
// So is what was allocated before main.
// libc: skip it has no such option
// env: TOFT_RECLAIM=off
// run: none
// run: lock
#include "common.h"

enum { N = 2000, SIZE = 1000, LARGE = 8 << 20 };

/* Runs before the library's own constructor, so that slabs are mapped by then. */
static void begin_early(void)
{
    CHECK(malloc(SIZE));
}
__attribute__((used, section(".preinit_array"))) static void (*const early)(void) = begin_early;

static size_t locked(void)
{
    static char text[8192];
    slurp("/proc/self/status", text, sizeof text);
    char *line = strstr(text, "VmLck:");
    CHECK(line);
    return strtoul(line + 6, NULL, 10) << 10;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    if (!getenv("TOFT_MAPPINGS")) {
        struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
        setrlimit(RLIMIT_MEMLOCK, &limit);
        char *p = mmap(NULL, 4 * LARGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(p != MAP_FAILED);
        if (mlock2(p, 4 * LARGE, MLOCK_ONFAULT) != 0)
            return 0; /* an ordinary user may lock little: option_mlock_refused.c */
        CHECK(munmap(p, 4 * LARGE) == 0);
    }
    int asked = !strcmp(argv[1], "lock");
    if (asked)
        anew_with(argv, "TOFT_MAPPINGS", "lock");
    size_t rss = rss_bytes();
    unsigned char *large = malloc(LARGE);
    CHECK(large);
    for (int i = 0; i < N; i++)
        CHECK(malloc(SIZE));
    CHECK(asked ? locked() >= LARGE + N * SIZE : locked() == 0);
    /* Locked is not touched. */
    CHECK(rss_bytes() < rss + (4 << 20));
    memset(large, 1, LARGE);
    free(large);
    CHECK(rss_bytes() < rss + LARGE + (4 << 20));
    return 0;
}
