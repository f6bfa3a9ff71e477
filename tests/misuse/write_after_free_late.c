// A freed block has left the quarantine when it is written to, and its call site allocates no more.
// The write is named although another call site goes on: the thread that allocates checks free
// slots of all call sites by turns. It needs no more claims than its free slots and its slabs make.
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
#include "two_sites.h"

enum {
    /* Enough for a block to leave the quarantine. */
    LEAVES = 64 << 20,
    /* Bytes claimed for each free one that is checked, and bytes that a stop counts for. */
    SHARE = 32,
    STOP = 256
};

int toft_stats_json(int fd) __attribute__((weak));

static size_t size;

/* A number of the library's statistics. */
static size_t figure(const char *name)
{
    static char text[1 << 20];
    int fd = memfd_create("statistics", MFD_CLOEXEC);
    CHECK(fd >= 0 && toft_stats_json(fd) == 0);
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    close(fd);
    CHECK(n > 0);
    text[n] = 0;
    const char *at = strstr(text, name);
    CHECK(at);
    return strtoul(at + strlen(name), NULL, 10);
}

/* The bytes of claims in which the thread goes round twice: a check may just have passed the block.
 * It stops at each slab, and after the slabs of each call site. */
static size_t two_rounds(void)
{
    size_t slabs = figure("\"slabs\":");
    return 2 * SHARE * (figure("\"free_bytes\":") + (2 * slabs + 2) * STOP);
}

static void go_on(size_t claimed)
{
    for (size_t i = 0; i < claimed / size; i++)
        free(launder(take_another(size)));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size = strtoul(argv[1], NULL, 10);
    size_t place = size / 2;
    /* A live block keeps the slab. */
    char *kept = launder(take(size)), *p = launder(take(size));
    CHECK(kept);
    announce_block(p);
    announce_number("place", place);
    CORRECT(p[place] = 1;)
    free(launder(p));
    go_on(LEAVES);
    size_t claimed = two_rounds();
    MISUSE(((volatile char *)launder(p))[place] = 1;)
    go_on(claimed);
    _exit(END);
}
