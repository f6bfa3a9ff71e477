/* Asking whether an access faults, without dying of it. One thread at a time. */
#ifndef TOFT_TESTS_FAULTS_H
#define TOFT_TESTS_FAULTS_H

#include "common.h"
#include <setjmp.h>

static sigjmp_buf fault_jump;
static volatile uintptr_t fault_address;

HELPER void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    fault_address = (uintptr_t)info->si_addr;
    siglongjmp(fault_jump, 1);
}

HELPER void catch_faults(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    CHECK(sigaction(SIGBUS, &action, NULL) == 0);
}

/* Whether reading the byte faults. */
NOINLINE int faults(const volatile void *p)
{
    if (sigsetjmp(fault_jump, 0))
        return 1;
    (void)*(const volatile unsigned char *)p;
    return 0;
}

/* The same of writing, which leaves there what was there. */
NOINLINE int faults_on_write(volatile void *p)
{
    volatile unsigned char *c = p;
    if (sigsetjmp(fault_jump, 0))
        return 1;
    *c = *c;
    return 0;
}

/* How many bytes can be read from `p` on, at most `most`; with step -1, downwards from `p - 1`. */
NOINLINE size_t sweep(const unsigned char *p, int step, size_t most)
{
    static volatile size_t read;
    read = 0;
    if (sigsetjmp(fault_jump, 0))
        return read;
    for (const volatile unsigned char *at = step > 0 ? p : p - 1; read < most; at += step) {
        (void)*at;
        read++;
    }
    return read;
}

#endif
