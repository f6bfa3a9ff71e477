// A program that is started under a filter which kills at every call that only an allocator with
// ambitions would make; starting programs and threads, and reading files, is allowed.
// flags: -pthread
// promise: 24
// musl: skip starts threads by clone, which this filter kills
#include "filter.h"

int main(int argc, char **argv)
{
    (void)argv;
    if (argc == 1) {
        struct sock_filter unusual[] = {
            LOAD_NUMBER,
            KILL(SYS_membarrier), KILL(SYS_process_madvise), KILL(SYS_pidfd_open),
            KILL(SYS_io_uring_setup), KILL(SYS_io_uring_enter), KILL(SYS_io_uring_register),
            KILL(SYS_userfaultfd), KILL(SYS_prctl), KILL(SYS_seccomp),
            /* Threads of the C library come by clone3. */
            KILL(SYS_clone),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        INSTALL(unusual);
        execl("/proc/self/exe", "again", "again", (char *)NULL);
        CHECK(!"exec");
    }
    prepare();
    expect_state("inherited");
    storm();
    expect_state("inherited");
    return 0;
}
