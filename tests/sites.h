/* Many functions that allocate, each a separate call site. */
#include "common.h"

enum { SITES = 16 };

static int site_function; /* which entry point the sites call */

#define SITE(n)                                                                                    \
    NOINLINE void *site_##n(size_t size)                                                           \
    {                                                                                              \
        void *p = NULL;                                                                            \
        switch (site_function) {                                                                   \
        case 0: p = malloc(size); break;                                                           \
        case 1: p = calloc(1, size); break;                                                        \
        case 2: p = realloc(NULL, size); break;                                                    \
        case 3: p = aligned_alloc(16, size); break;                                                \
        case 4: p = memalign(16, size); break;                                                     \
        default: CHECK(posix_memalign(&p, 16, size) == 0);                                         \
        }                                                                                          \
        CHECK(p);                                                                                  \
        NO_TAIL_CALL();                                                                            \
        return p;                                                                                  \
    }
SITE(0) SITE(1) SITE(2) SITE(3) SITE(4) SITE(5) SITE(6) SITE(7)
SITE(8) SITE(9) SITE(10) SITE(11) SITE(12) SITE(13) SITE(14) SITE(15)

static void *(*const site[SITES])(size_t) = {
    site_0, site_1, site_2, site_3, site_4, site_5, site_6, site_7,
    site_8, site_9, site_10, site_11, site_12, site_13, site_14, site_15,
};
