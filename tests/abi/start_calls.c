// A small process makes few system calls more than with the C library's malloc, the loading of the
// library included. Random words come by one call, nothing is mapped on trial, no file below /sys
// or /proc is read, and the end makes no call. A tracer counts the calls of the same program with
// and without the library.
// libc: skip counts Toft's calls
// musl: skip the library is linked there, not preloaded
// aarch64: skip qemu traces nothing
// case: start_calls -DMOST=15
// build: default the secure builds call for each guard page
// case: start_calls_secure -DMOST=25
// build: secure the default build makes fewer calls
#include "common.h"
#ifdef __x86_64__
#include "tracer.h"

enum { CALLS = 512 };

/* What a program calls, by the number of the call. */
struct calls {
    int all, of[CALLS];
    int over; /* whether main has ended */
    int at_end; /* after main */
};

/* What the traced program does: nothing, or one block of each of some sizes. */
static int traced(int blocks)
{
    for (int i = 0; i < blocks; i++)
        CHECK(launder(malloc((size_t)16 << i % 6)));
    /* A call that nothing else makes, for the tracer: main has ended. */
    syscall(SYS_tgkill, -1, -1, 0);
    return 0;
}

static void count(long call, void *to)
{
    struct calls *calls = to;
    CHECK(call >= 0 && call < CALLS);
    if (call == SYS_tgkill) {
        calls->over = 1;
        return;
    }
    calls->all++;
    calls->of[call]++;
    calls->at_end += calls->over;
}

static struct calls calls_of(const char *blocks, int preloaded)
{
    struct calls calls = { 0 };
    run_traced(blocks, preloaded, count, &calls);
    CHECK(calls.over && calls.all > 10);
    return calls;
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return traced(atoi(argv[1]));
    const struct { const char *blocks; int most; } programs[] = { { "0", 13 }, { "60", MOST } };
    for (int i = 0; i < 2; i++) {
        struct calls with = calls_of(programs[i].blocks, 1), without = calls_of(programs[i].blocks, 0);
        int more = with.all - without.all;
        fprintf(stdout, "%s blocks: %d calls, %d without the library\n", programs[i].blocks, with.all,
                without.all);
        fflush(stdout);
        CHECK(more <= programs[i].most);
        CHECK(with.of[SYS_getrandom] == 1);
        CHECK(with.of[SYS_munmap] == without.of[SYS_munmap]);
        /* The library itself. */
        CHECK(with.of[SYS_openat] == without.of[SYS_openat] + 1);
        CHECK(with.of[SYS_close] == without.of[SYS_close] + 1);
        CHECK(with.at_end == without.at_end);
    }
    return 0;
}
#else
int main(void)
{
    return 0;
}
#endif
