/* Thousands of call sites: at_site(n, size) calls malloc from the n-th. */
#include "statistic.h"

enum { MANY_SITES = 6000, SITE_BYTES = 16 };

#ifdef __aarch64__
#define SITE_CODE "stp x29, x30, [sp, #-16]!\nbl malloc\nldp x29, x30, [sp], #16\nret\n"
#else
#define SITE_CODE "sub $8, %rsp\ncall malloc@plt\nadd $8, %rsp\nret\n"
#endif

__asm__(".text\n"
        ".balign 16\n"
        "many_sites:\n"
        ".rept 6000\n"
        ".balign 16\n"
        SITE_CODE
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
