// Each call of mallocx and rallocx is a call site, as a call of malloc is.
// env: TOFT_PARTITIONS=exact
// libc: skip it has no such calls
// musl: skip weak names take nothing out of an archive
#include "jemalloc.h"
#include "statistic.h"

static int which; /* the function that the sites call */

#define SITE(n)                                                                                    \
    NOINLINE void *site_##n(size_t size)                                                           \
    {                                                                                              \
        void *p = NULL;                                                                            \
        switch (which) {                                                                           \
        case 0: p = mallocx(size, 0); break;                                                       \
        case 1: p = mallocx(size, ZERO); break;                                                    \
        case 2: p = mallocx(size, ALIGN(64)); break;                                               \
        case 3: p = rallocx(mallocx(8, 0), size, 0); break;                                        \
        default: p = rallocx(mallocx(8, 0), size, ALIGN(4096));                                    \
        }                                                                                          \
        CHECK(p);                                                                                  \
        NO_TAIL_CALL();                                                                            \
        return p;                                                                                  \
    }
#include "site_table.h"

int main(void)
{
    for (which = 0; which < 5; which++) {
        long before = statistic("own_sites");
        for (int i = 0; i < SITES; i++)
            dallocx(site[i](200 + 100 * (size_t)which), 0);
        /* The inner mallocx of the last two is a site, too. */
        CHECK(statistic("own_sites") == before + SITES * (which < 3 ? 1 : 2));
    }
    return 0;
}
