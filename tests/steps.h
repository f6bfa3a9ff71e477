/* Single steps through the machine code of a call, in the thread that makes it: behind the instruction with the
 * number `target` a signal handler does what the test says. On x86-64. */
#ifndef TOFT_TESTS_STEPS_H
#define TOFT_TESTS_STEPS_H
#include "common.h"
#ifdef __x86_64__
#include <ucontext.h>

/* Instructions that were stepped over, and the one that it is about. */
static volatile int step, target;
static void (*volatile at_target)(void);

static void on_step(int sig, siginfo_t *info, void *context)
{
    static const long TRAP_FLAG = 0x100;
    (void)sig, (void)info;
    if (++step < target)
        return;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    at_target();
}

HELPER void when_stepped(void (*act)(void), int flags)
{
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO | flags};
    at_target = act;
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
}

/* Around the call. */
#define BEGIN_STEPS() __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc")
#define END_STEPS() __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc")
#endif

#endif
