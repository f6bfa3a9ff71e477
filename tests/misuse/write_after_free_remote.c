// A block that another thread has freed is written to.
// flags: -pthread
// build: full the light one does not clear what is freed
// run: 64
// run: 2000
// expect: signal ABRT
// stderr: toft: write after free: {re:malloc|free}({p}): byte 3 of this free {size}-byte block was overwritten ({re:small|medium} slab, slot {n}, partition {n}; call site {addr})
// twin: writes before it is freed
// promise: 12 30
#include "one_site.h"

static void *freer(void *p)
{
    free(launder(p));
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    unsigned char *p = launder(allocate(size));
    CHECK(p);
    announce_block(p);
    CORRECT(p[3] = 1;)
    join(spawn(freer, p));
    MISUSE(((unsigned char *)launder(p))[3] = 1;)
    /* What that thread had in quarantine goes with a purge. */
    purge_all();
    for (int i = 0; i < 100000; i++)
        free(launder(allocate(size)));
    return END;
}
