/* A program that is run again under a tracer, which sees its system calls. */
#ifndef TOFT_TESTS_TRACER_H
#define TOFT_TESTS_TRACER_H

#include "common.h"
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>

/* Runs this program with `argument`, with or without what is preloaded. Calls `seen` with the
 * number of each system call of its first thread and `to`. The program must end with 0. */
static void run_traced(const char *argument, int preloaded, void (*seen)(long, void *), void *to)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(preloaded || unsetenv("LD_PRELOAD") == 0);
        CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
        execl("/proc/self/exe", "again", argument, (char *)NULL);
        CHECK(!"exec");
    }
    int status, entry = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    CHECK(ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0);
    while (!WIFEXITED(status)) {
        CHECK(ptrace(PTRACE_SYSCALL, child, NULL, NULL) == 0);
        CHECK(waitpid(child, &status, 0) == child && !WIFSIGNALED(status));
        struct user_regs_struct regs;
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != (SIGTRAP | 0x80) || !(entry = !entry))
            continue;
        CHECK(ptrace(PTRACE_GETREGS, child, NULL, &regs) == 0);
        seen((long)regs.orig_rax, to);
    }
    CHECK(WEXITSTATUS(status) == 0);
}

#endif
