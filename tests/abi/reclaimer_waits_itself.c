// The call of malloc that starts the reclaimer makes no membarrier: the first one of a process with
// several threads waits in the kernel for all processors, for milliseconds. The reclaimer makes it.
// A tracer sees the system calls of the program's first thread, and only those.
// flags: -pthread
// libc: skip has no reclaimer
// aarch64: skip qemu traces nothing
#include "reclaimer.h"
#ifdef __x86_64__
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>

static void *sleeper(void *arg)
{
    for (;;)
        pause();
    return arg;
}

static int traced(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, sleeper, NULL) == 0);
    for (int i = 0; i < 64 << 10; i++)
        CHECK(launder(malloc(1000)));
    CHECK(comes_a_reclaimer(60));
    return 0;
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return traced();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
        execl("/proc/self/exe", "again", "again", (char *)NULL);
        CHECK(!"exec");
    }
    int status, calls = 0, barriers = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    CHECK(ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0);
    while (!WIFEXITED(status)) {
        CHECK(ptrace(PTRACE_SYSCALL, child, NULL, NULL) == 0);
        CHECK(waitpid(child, &status, 0) == child && !WIFSIGNALED(status));
        struct user_regs_struct regs;
        if (WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            CHECK(ptrace(PTRACE_GETREGS, child, NULL, &regs) == 0);
            calls++;
            barriers += regs.orig_rax == SYS_membarrier;
        }
    }
    CHECK(WEXITSTATUS(status) == 0 && calls > 100 && barriers == 0);
    return 0;
}
#else
int main(void)
{
    return 0;
}
#endif
