/* Many functions that allocate, each a separate call site. */
#include "common.h"

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
#include "site_table.h"
