// The library's thread reads the cgroup about once a second; not when a filter has been installed
// for all threads that kills on the opening of a file.
// env: TOFT_DECAY=50
// flags: -pthread
// timeout: 60
// promise: 24
#include "filter.h"

#ifndef SECCOMP_FILTER_FLAG_TSYNC
#define SECCOMP_FILTER_FLAG_TSYNC 1
#endif

int main(void)
{
    struct timespec while_awake = {0, 100000000};
    prepare();
    struct sock_filter usual[] = USUAL_CALLS;
    struct sock_fprog program = PROGRAM(usual);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
    expect_state("installed");
    /* Some seconds in which there is always something that has just been freed. */
    for (int i = 0; i < 30; i++) {
        one_round((size_t)i);
        clock_nanosleep(CLOCK_MONOTONIC, 0, &while_awake, NULL);
    }
    storm();
    return 0;
}
