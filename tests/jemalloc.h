/* jemalloc's extended interface, as its manual has it. The programs that include this also run on
 * the real one: the trials that end in `_on_jemalloc`. */
#include "common.h"

#define WEAK __attribute__((weak))
WEAK void *mallocx(size_t size, int flags);
WEAK void *rallocx(void *block, size_t size, int flags);
WEAK size_t xallocx(void *block, size_t size, size_t extra, int flags);
WEAK size_t sallocx(const void *block, int flags);
WEAK void dallocx(void *block, int flags);
WEAK void sdallocx(void *block, size_t size, int flags);
WEAK size_t nallocx(size_t size, int flags);
WEAK int mallctl(const char *name, void *old, size_t *old_len, void *new, size_t new_len);
WEAK int mallctlnametomib(const char *name, size_t *mib, size_t *len);
WEAK int mallctlbymib(const size_t *mib, size_t len, void *old, size_t *old_len, void *new,
                      size_t new_len);
WEAK void malloc_stats_print(void (*write)(void *, const char *), void *opaque, const char *options);

#define LG_ALIGN(shift) (shift)
#define ALIGN(align) __builtin_ctzl(align)
#define ZERO 0x40
#define TCACHE_NONE (1 << 8)
#define ARENA(arena) (((arena) + 1) << 20)

/* The value of a name, of any type of up to 8 bytes. */
HELPER uint64_t value_of(const char *name, size_t size)
{
    uint64_t value = 0;
    size_t room = size;
    CHECK(mallctl(name, &value, &room, NULL, 0) == 0);
    CHECK(room == size);
    return value;
}

HELPER size_t figure(const char *name)
{
    return value_of(name, sizeof(size_t));
}

HELPER void next_epoch(void)
{
    uint64_t epoch = 1;
    CHECK(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch) == 0);
}
