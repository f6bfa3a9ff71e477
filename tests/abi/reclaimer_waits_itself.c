// In a process with several threads the call of malloc that starts the reclaimer makes no
// membarrier, because the first one waits in the kernel for all processors, for milliseconds. The
// reclaimer makes it. In a process with one thread it takes no time, and the call makes it, because
// the end of the program would have to wait for the reclaimer. A tracer sees the system calls of
// the program's first thread, and only those.
// flags: -pthread
// env: TOFT_DECAY=3600000
// libc: skip has no reclaimer
// aarch64: skip qemu traces nothing
#include "reclaimer.h"
#ifdef __x86_64__
#include "tracer.h"

static void *sleeper(void *arg)
{
    for (;;)
        pause();
    return arg;
}

static int traced(int threads)
{
    pthread_t thread;
    CHECK(threads == 1 || pthread_create(&thread, NULL, sleeper, NULL) == 0);
    for (int i = 0; i < 64 << 10; i++)
        CHECK(launder(malloc(1000)));
    CHECK(comes_a_reclaimer(60));
    return 0;
}

struct calls {
    int all, barriers;
};

static void count(long call, void *to)
{
    struct calls *calls = to;
    calls->all++;
    calls->barriers += call == SYS_membarrier;
}

/* Runs a program with this number of threads. Returns the number of barriers that its first thread made. */
static int barriers_of(const char *threads)
{
    struct calls calls = { 0 };
    run_traced(threads, 1, count, &calls);
    CHECK(calls.all > 50);
    return calls.barriers;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return traced(atoi(argv[1]));
    CHECK(barriers_of("2") == 0);
    CHECK(barriers_of("1") > 0);
    return 0;
}
#else
int main(void)
{
    return 0;
}
#endif
