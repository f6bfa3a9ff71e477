// TOFT_GUARDED=100: about one allocation in a hundred ends at a page that cannot be read; without
// the option none does.
// env: TOFT_GUARDED=100
// libc: skip it has no such option
#include "common.h"

static int ends[2];

/* Whether the byte can be read, asked of the kernel. */
static int readable(const char *p)
{
    char byte;
    if (write(ends[1], p, 1) != 1) {
        CHECK(errno == EFAULT);
        return 0;
    }
    CHECK(read(ends[0], &byte, 1) == 1);
    return 1;
}

static size_t count(size_t allocations, int zeroed)
{
    size_t found = 0;
    for (size_t i = 0; i < allocations; i++) {
        size_t n = 16 + i % 10 * 48;
        char *p = launder(zeroed ? calloc(1, n) : malloc(n));
        CHECK(p);
        size_t usable = malloc_usable_size(p);
        p[0] = p[usable - 1] = 1;
        found += (uintptr_t)(p + usable) % 4096 == 0 && !readable(p + usable);
        free(p);
    }
    return found;
}

int main(int argc, char **argv)
{
    CHECK(pipe(ends) == 0);
    if (argc > 1)
        return count(200000, 0) == 0 ? 0 : 1;
    /* One in a hundred, of which seven in eight are at this end of their place. */
    for (int zeroed = 0; zeroed < 2; zeroed++) {
        size_t found = count(200000, zeroed);
        if (found < 1200 || found > 2400)
            dprintf(2, "%zu of 200000 are guarded, zeroed %d\n", found, zeroed);
    }
    unsetenv("TOFT_GUARDED");
    static char text[100];
    CHECK(run_again("none", 7, text, sizeof text) == 0);
    return 0;
}
