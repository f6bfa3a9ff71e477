// The byte before a block is written, and what is before the block is a slot that was never handed
// out, or was freed, or is live, or is reserved. The free names it, or a verification does, or the
// verification at exit. Only before the first slot of a slab is there no slot: the write faults.
// A freed slot in the quarantine may end with the one value of 255 that its canary had there.
// build: secure the default one does not look
// env: TOFT_VERIFY=exit
// env: TOFT_REPORT=line
// libc: skip it does not look
// timeout: 120
// twin: writes the first byte
// promise: 8
// case: underflow_any_slot_at_free -DWAY=1
// case: underflow_any_slot_verified -DWAY=2
// case: underflow_any_slot_at_exit -DWAY=3
#include "common.h"

enum { BLOCKS = 64, RUNS = 60, UNNAMED_MOST = 3 };

/* In every other run there are freed slots, too. */
static int has_freed(unsigned seed)
{
    return seed / 8 % 2 != 0;
}

static int is_named(const char *text)
{
    return strstr(text, "toft: heap underflow: ") || strstr(text, "toft: wild write: ") ||
           /* The slot before is live, and is verified first. */
           strstr(text, "toft: heap overflow: verify(") ||
           /* It is free, and is verified or handed out first. */
           strstr(text, "toft: write after free: ");
}

/* One call site, so that the blocks are in one slab if they fit. */
NOINLINE unsigned char *take(size_t size)
{
    unsigned char *p = malloc(size);
    NO_TAIL_CALL();
    CHECK(p);
    return launder(p);
}

static void strike(unsigned seed)
{
    static const size_t sizes[] = {64, 15, 100, 300, 1000, 2048, 5000, 12287};
    size_t size = sizes[seed % (sizeof sizes / sizeof *sizes)];
    unsigned char *blocks[BLOCKS], *p;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = take(size);
    for (int i = 0; i < BLOCKS && has_freed(seed); i += 2)
        free(launder(blocks[i]));
    p = take(size);
    CORRECT(p[0] ^= 0x5A;)
    MISUSE(p[-1] = p[-1] == 0x5A ? 0x33 : 0x5A;)
    if (WAY == 1)
        free(launder(p));
    if (WAY == 2)
        ((int (*)(void))symbol("toft_verify"))();
}

int main(int argc, char **argv)
{
    if (argc == 2) {
        strike((unsigned)strtoul(argv[1], NULL, 10));
        return 0;
    }
    int named = 0;
    MISUSE(int unnamed = 0;)
    for (int run = 0; run < RUNS; run++) {
        char arg[20], text[65536];
        snprintf(arg, sizeof arg, "%d", run);
        int status = run_again(arg, 2, text, sizeof text);
        int faults = WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
        int right = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && is_named(text);
        CORRECT(right = WIFEXITED(status) && WEXITSTATUS(status) == 0 && !text[0];)
        MISUSE(if (has_freed((unsigned)run) && status == 0 && ++unnamed <= UNNAMED_MOST) continue;)
        if (!right && !faults) {
            fprintf(stderr, "run %d: status %#x, %s\n", run, (unsigned)status, text);
            CHECK(!"each write is named");
        }
        named += right;
    }
    CHECK(named > RUNS / 2);
    return 0;
}
