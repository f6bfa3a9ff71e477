// A program that installs a filter for all its threads by syscall(SYS_seccomp), or for one by
// syscall(SYS_prctl): it kills at every call that a malloc need not make.
// flags: -pthread
// run: seccomp
// run: prctl
// promise: 24
#include "filter.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    prepare();
    struct sock_filter usual[] = USUAL_CALLS;
    struct sock_fprog program = PROGRAM(usual);
    CHECK(syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    /* Questions, and refused ones, leave things as they are. */
    uint32_t action = SECCOMP_RET_KILL_PROCESS;
    CHECK(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0);
    errno = 0;
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) == -1 && errno == EFAULT);
    errno = 0;
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) == -1 && errno == EINVAL);
    expect_state(state_at_start());
    if (!strcmp(argv[1], "seccomp"))
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
    else
        CHECK(syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
    expect_state("installed");
    storm();
    return 0;
}
