// Without a filter: nothing is taken for one. In a child of fork, neither.
// flags: -pthread
// promise: 24
#include "filter.h"

int main(void)
{
    prepare();
    expect_state(state_at_start());
    /* What only looks like installing one. */
    CHECK(prctl(PR_GET_DUMPABLE, SECCOMP_MODE_FILTER, 0, 0, 0) >= 0);
    CHECK(syscall(SYS_getpid, SECCOMP_SET_MODE_FILTER) == getpid());
    storm();
    expect_state(state_at_start());
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        one_round(103);
        expect_state(state_at_start());
        struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        INSTALL(all);
        expect_state("installed");
        _exit(0);
    }
    reap(pid);
    /* What a child has installed is the child's. */
    expect_state(state_at_start());
    return 0;
}
