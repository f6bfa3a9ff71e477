// A freed block has left the quarantine when it is written to, and its call site allocates no more.
// The write is named although another call site goes on: the thread that allocates checks free
// slots of all call sites by turns.
// build: full the light one does not clear what is freed
// env: TOFT_REPORT=line
// env: TOFT_DECAY=1000000
// run: 16
// run: 64
// run: 128
// run: 1000
// run: 4000
// expect: signal ABRT
// stderr: toft: write after free: malloc({p}): byte {place} of this free {size}-byte block was overwritten ({re:small|medium} slab, slot {n}, partition {n}; call site {addr})
// twin: writes before it frees
// promise: 12
#include "common.h"

/* The thread goes round all of its slabs, and once more if a check had just passed the block. */
enum { CLAIMED = 64 << 20 };

static size_t size;

NOINLINE char *take(void)
{
    char *p = malloc(size);
    NO_TAIL_CALL();
    return p;
}

NOINLINE char *take_another(void)
{
    char *p = malloc(size);
    NO_TAIL_CALL();
    return p;
}

static void go_on(void)
{
    for (size_t i = 0; i < CLAIMED / size; i++)
        free(launder(take_another()));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size = strtoul(argv[1], NULL, 10);
    size_t place = size / 2;
    /* A live block keeps the slab. */
    char *kept = launder(take()), *p = launder(take());
    CHECK(kept);
    announce_block(p);
    announce_number("place", place);
    CORRECT(p[place] = 1;)
    free(launder(p));
    go_on();
    MISUSE(((volatile char *)launder(p))[place] = 1;)
    go_on();
    _exit(END);
}
