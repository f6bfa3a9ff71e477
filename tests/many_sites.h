/* Thousands of call sites: at_site(n, size) calls malloc from the n-th. */
#include "statistic.h"

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
