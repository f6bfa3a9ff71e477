// A program's own handler of SIGSEGV, set before and after blocks were sampled, is called for its
// own faults and not for the pool's; and one that calls whom it has found before itself ends as
// without us.
// env: TOFT_GUARDED=1
// run: own
// run: chained
// expect: signal ABRT
// stderr: toft: use after free: read({p}): 0 bytes inside the {size}-byte block at {p} (guarded block, free; call site {addr})
// libc: skip it has no such option
// promise: 28
#include "common.h"
#include <setjmp.h>

static sigjmp_buf back;
static int caught;

static void own(int signal, siginfo_t *info, void *context)
{
    (void)context;
    CHECK(signal == SIGSEGV && info->si_addr == (void *)8);
    caught++;
    siglongjmp(back, 1);
}

static struct sigaction before;

/* As a crash reporter does. */
static void reporter(int signal, siginfo_t *info, void *context)
{
    caught++;
    if (caught == 3)
        _exit(0);
    CHECK(before.sa_flags & SA_SIGINFO);
    before.sa_sigaction(signal, info, context);
}

static void sample(void)
{
    for (int i = 0; i < 10; i++)
        free(launder(malloc(100)));
}

int main(int argc, char **argv)
{
    (void)argc;
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    volatile int *nowhere = launder((void *)8);
    sample();
    if (strcmp(argv[1], "chained") == 0) {
        /* It is called, calls us, and we must not call it again; the fault then ends the process by default. */
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            action.sa_sigaction = reporter;
            CHECK(sigaction(SIGSEGV, &action, &before) == 0);
            sample();
            *nowhere = 1;
            _exit(3);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    } else {
        action.sa_sigaction = own;
        CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
        for (int i = 1; i <= 4; i++) {
            if (sigsetjmp(back, 1) == 0)
                *nowhere = 1;
            CHECK(caught == i);
            sample();
        }
    }
    volatile char *p = launder(malloc(64));
    announce_block((void *)p);
    free((void *)p);
    return 77 + p[0];
}
