/* Call sites behind a wrapper, in each of its shapes: by the stack pointer, by the frame pointer, and two of them,
 * one calling the other. */
#include "common.h"

static int shape; /* which wrapper the sites call */
static int entry; /* which entry point the wrappers call */

NOINLINE void *allocate(size_t size)
{
    void *p = NULL;
    switch (entry) {
    case 0: p = malloc(size); break;
    case 1: p = calloc(1, size); break;
    case 2: p = realloc(NULL, size); break;
    case 3: p = aligned_alloc(16, size); break;
    default: CHECK(posix_memalign(&p, 16, size) == 0);
    }
    CHECK(p);
    NO_TAIL_CALL();
    return p;
}

__attribute__((noinline, optimize("omit-frame-pointer"))) void *wrap_plain(size_t size)
{
    volatile char room[100];
    room[size % 100] = 1;
    void *p = malloc(size);
    CHECK(p && room[size % 100] == 1);
    return p;
}

__attribute__((noinline, optimize("no-omit-frame-pointer"))) void *wrap_framed(size_t size)
{
    /* Of a length that only the frame pointer knows. */
    volatile char room[size % 7 * 16 + 16];
    room[0] = 1;
    void *p = malloc(size);
    CHECK(p && room[0] == 1);
    return p;
}

NOINLINE void *wrap_entry(size_t size)
{
    void *p = allocate(size);
    NO_TAIL_CALL();
    return p;
}

NOINLINE void *wrap_twice(size_t size)
{
    void *p = wrap_plain(size);
    NO_TAIL_CALL();
    return p;
}

#define SITE(n)                                                                                    \
    NOINLINE void *site_##n(size_t size)                                                           \
    {                                                                                              \
        void *p = shape == 0   ? wrap_plain(size)                                                  \
                  : shape == 1 ? wrap_framed(size)                                                 \
                  : shape == 2 ? wrap_twice(size)                                                  \
                               : wrap_entry(size);                                                 \
        NO_TAIL_CALL();                                                                            \
        return p;                                                                                  \
    }
#include "site_table.h"
