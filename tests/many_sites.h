/* Thousands of call sites: at_site(n, size) calls malloc from the n-th. */
#include "common.h"

enum { MANY_SITES = 6000, SITE_BYTES = 16 };

__asm__(".text\n"
        ".balign 16\n"
        "many_sites:\n"
        ".rept 6000\n"
        ".balign 16\n"
        "sub $8, %rsp\n"
        "call malloc@plt\n"
        "add $8, %rsp\n"
        "ret\n"
        ".endr\n");
extern const char many_sites[];

HELPER void *at_site(int n, size_t size)
{
    CHECK(n < MANY_SITES);
    void *(*site)(size_t) = (void *(*)(size_t))(uintptr_t)(many_sites + n * SITE_BYTES);
    void *p = site(size);
    CHECK(p);
    return p;
}

/* A number out of the library's statistics. */
HELPER long statistic(const char *name)
{
    static char text[1 << 16];
    int (*stats)(int) = (int (*)(int))symbol("toft_stats_json");
    CHECK(stats);
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(stats(ends[1]) == 0);
    close(ends[1]);
    size_t have = 0;
    ssize_t got;
    while ((got = read(ends[0], text + have, sizeof text - 1 - have)) > 0)
        have += got;
    close(ends[0]);
    text[have] = 0;
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", name);
    char *at = strstr(text, key);
    CHECK(at);
    return atol(at + strlen(key));
}
