// A share of the memory as a limit, in a program that is started under a filter which kills at
// calls that starting a program does not make: it starts, and the limit holds.
// env: TOFT_LIMIT=1%
// stderr: toft: TOFT_LIMIT refused a block of {n} bytes: {n} of {n} bytes are in use; later refusals are not reported
// libc: skip it has no limit
// flags: -pthread
// promise: 24 26
#include "filter.h"

int main(int argc, char **argv)
{
    (void)argv;
    if (argc == 1) {
        struct sock_filter unusual[] = {
            LOAD_NUMBER,
            KILL(SYS_membarrier), KILL(SYS_process_madvise), KILL(SYS_pidfd_open),
            KILL(SYS_io_uring_setup), KILL(SYS_io_uring_enter), KILL(SYS_io_uring_register),
            KILL(SYS_userfaultfd), KILL(SYS_prctl), KILL(SYS_seccomp), KILL(SYS_clone),
            KILL(SYS_sysinfo),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        INSTALL(unusual);
        execl("/proc/self/exe", "again", "again", (char *)NULL);
        CHECK(!"exec");
    }
    /* No machine has a hundred times that. */
    static char *block[1 << 16];
    size_t n = 0;
    errno = 0;
    while (n < 1 << 16 && (block[n] = malloc((size_t)16 << 20)))
        n++;
    CHECK(n < 1 << 16 && errno == ENOMEM);
    while (n)
        free(block[--n]);
    return 0;
}
