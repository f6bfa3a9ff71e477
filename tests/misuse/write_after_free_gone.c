// The pages of free blocks are back at the OS, and one is written to then, in its middle or where
// it shares a page with another: malloc reports it instead of handing it out.
// build: full the light one does not clear what is freed
// run: 3000 1500
// run: 20000 8192
// run: 20000 0
// run: 20000 19999
// run: 60000 30000
// run: 100000 99999
// expect: signal ABRT
// stderr: toft: write after free: malloc({p}): byte {place} of this free {size}-byte block was overwritten (medium slab, slot {n}, partition {n}; call site {addr})
// libc: skip it looks at nothing
// twin: reads only
// promise: 11 12
#include "one_site.h"

enum { N = 64 };
static unsigned char *block[N];

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t size = strtoul(argv[1], NULL, 10), place = strtoul(argv[2], NULL, 10);
    for (int i = 0; i < N; i++) {
        block[i] = launder(allocate(size));
        CHECK(block[i]);
        memset(block[i], 1, size);
    }
    for (int i = 0; i < N; i++)
        free(block[i]);
    purge_all();
    announce("p", block[N / 2]);
    announce_number("place", place);
    announce_number("size", size);
    unsigned char *stale = launder(block[N / 2]);
    MISUSE(stale[place] = 1;)
    CORRECT(CHECK(stale[place] == 0);)
    // Of slots that are small beside their slab, malloc has more than N to choose from.
    for (int i = 0; i < (size < 10000 ? 64 * N : N); i++) {
        unsigned char *p = launder(allocate(size));
        CHECK(p);
        for (size_t at = 0; at < size; at++)
            CHECK(p[at] == 0);
    }
    return END;
}
