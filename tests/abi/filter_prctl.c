// A program that installs a filter by prctl, which kills at every call that a malloc need not make.
// Threads that were there before have none, as is prctl's way; the main thread has.
// flags: -pthread
// promise: 24
#include "filter.h"

int main(void)
{
    prepare();
    expect_state(state_at_start());
    struct sock_filter usual[] = USUAL_CALLS;
    struct sock_fprog program = PROGRAM(usual);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    expect_state(state_at_start());
    /* Refused ones leave things as they are. */
    errno = 0;
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) == -1 && errno == EFAULT);
    errno = 0;
    CHECK(prctl(PR_SET_SECCOMP, 77, NULL) == -1 && errno == EINVAL);
    expect_state(state_at_start());
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    expect_state("installed");
    storm();
    expect_state("installed");
    return 0;
}
