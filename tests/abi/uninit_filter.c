// A program installs a filter of system calls for all its threads, one that knows only what any
// malloc calls: from then on nothing that it reads is named, and no thread waits for a watcher that
// may not call.
// flags: -pthread
// env: TOFT_GUARDED=uninit
// libc: skip it has no such option
#include "filter.h"

int main(void)
{
    enum { MANY = 50 };
    static char *block[MANY];
    for (size_t i = 0; i < MANY; i++)
        CHECK((block[i] = launder(malloc(i * 500 + 1))));
    struct sock_filter usual[] = {
        LOAD_NUMBER, ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mremap), ALLOW(SYS_madvise), ALLOW(SYS_mprotect),
        ALLOW(SYS_futex), ALLOW(SYS_write), ALLOW(SYS_exit_group), ALLOW(SYS_rt_sigprocmask),
        ALLOW(SYS_rt_sigaction), ALLOW(SYS_getpid), ALLOW(SYS_gettid), ALLOW(SYS_tgkill),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = PROGRAM(usual);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
    for (size_t i = 0; i < MANY; i++) {
        CHECK(((volatile char *)block[i])[i] == 0);
        free(block[i]);
        CHECK((block[i] = launder(malloc(i * 500 + 1))));
        CHECK(((volatile char *)block[i])[i] >= -128);
    }
    return 0;
}
