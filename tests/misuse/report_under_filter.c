// A bad call under a filter of system calls that allows what any malloc needs: named in one line,
// and the end by SIGABRT. A call that reads /proc there, or another file, is killed by the filter.
// env: TOFT_REPORT=/dev/null
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// libc: skip glibc says it in other words
// twin: frees it once
// promise: 28
#include "../abi/filter.h"

int main(void)
{
    struct sock_filter usual[] = {
        LOAD_NUMBER, ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mremap), ALLOW(SYS_madvise),
        ALLOW(SYS_futex), ALLOW(SYS_write), ALLOW(SYS_exit_group), ALLOW(SYS_rt_sigprocmask),
        ALLOW(SYS_rt_sigaction), ALLOW(SYS_getpid), ALLOW(SYS_gettid), ALLOW(SYS_tgkill),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = PROGRAM(usual);
    void *p = launder(malloc(64));
    announce_block(p);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    free(p);
    MISUSE(free(launder(p));)
    return END;
}
