// A filter that kills the process on any system call that an allocator need not make. After its
// start the library keeps to mmap, munmap, mremap, mprotect, madvise and futex, in threads and at
// their exit, at large and small sizes, when giving back and when growing.
// flags: -pthread
// timeout: 60
// promise: 24
#include "common.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define ALLOW(number)                                                                              \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1),                                           \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void install(void)
{
    struct sock_filter common[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mremap), ALLOW(SYS_mprotect),
        ALLOW(SYS_madvise), ALLOW(SYS_futex),
        /* What starting, ending and joining threads and this program itself need. */
        ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_exit), ALLOW(SYS_exit_group),
        ALLOW(SYS_clone), ALLOW(SYS_clone3), ALLOW(SYS_set_robust_list), ALLOW(SYS_rseq),
        ALLOW(SYS_rt_sigprocmask), ALLOW(SYS_rt_sigaction), ALLOW(SYS_rt_sigreturn),
        ALLOW(SYS_tgkill), ALLOW(SYS_getpid), ALLOW(SYS_gettid),
        /* glibc's own malloc: the break, and the number of processors. */
        ALLOW(on_toft() ? SYS_mmap : SYS_brk), ALLOW(on_toft() ? SYS_mmap : SYS_openat),
        ALLOW(on_toft() ? SYS_mmap : SYS_sched_getaffinity), ALLOW(on_toft() ? SYS_mmap : SYS_close),
        ALLOW(on_toft() ? SYS_mmap : SYS_getrandom), ALLOW(on_toft() ? SYS_mmap : SYS_prlimit64),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof common / sizeof *common, common};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void *shelf[1000];

static void *worker(void *arg)
{
    struct rng r = {(size_t)arg + 1};
    for (int k = 0; k < 20000; k++) {
        size_t i = rng_below(&r, 1000);
        void *p = malloc(rng_below(&r, k % 100 ? 2000 : 600000));
        CHECK(p);
        if (k % 5 == 0) {
            p = realloc(p, rng_below(&r, k % 35 ? 3000 : 2000000) + 1);
            CHECK(p);
        }
        free(__atomic_exchange_n(&shelf[i], p, __ATOMIC_ACQ_REL));
    }
    purge_all();
    return NULL;
}

int main(void)
{
    install();
    for (int round = 0; round < 5; round++) {
        pthread_t t[4];
        for (size_t i = 0; i < 4; i++)
            t[i] = spawn(worker, (void *)i);
        for (int i = 0; i < 4; i++)
            join(t[i]);
    }
    for (int i = 0; i < 1000; i++)
        free(shelf[i]);
    /* Growth far past any first reservation step, and a request that cannot be met. */
    for (int i = 0; i < 200; i++)
        CHECK(malloc(8 << 20));
    errno = 0;
    CHECK(malloc(launder_size((size_t)1 << 46)) == NULL && errno == ENOMEM);
    void *p = memalign(1 << 22, 1 << 20);
    CHECK(p);
    free(p);
    p = calloc(1, 30 << 20);
    CHECK(p);
    free(p);
    return 0;
}
