/* Filters of system calls, and what a program does under them: it allocates and frees some hundred MB in
 * mixed sizes, in threads that were there before, trims, sleeps for a second and goes on. The
 * process is killed at the first call that no malloc needs. */
#ifndef TOFT_TESTS_FILTER_H
#define TOFT_TESTS_FILTER_H

#include "common.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#define SYS_io_uring_enter 426
#define SYS_io_uring_register 427
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

#define LOAD_NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ALLOW(number)                                                                              \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1),                                           \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL(number)                                                                               \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1),                                           \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define PROGRAM(instructions) {sizeof instructions / sizeof *instructions, instructions}
/* Installs a filter for the calling thread. */
#define INSTALL(instructions)                                                                      \
    do {                                                                                           \
        struct sock_fprog program = PROGRAM(instructions);                                         \
        CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);                                        \
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);                          \
    } while (0)

/* What a malloc may call, and what the storm below calls itself; everything else kills. */
#define USUAL_CALLS                                                                                \
    {                                                                                              \
        LOAD_NUMBER, ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mremap), ALLOW(SYS_madvise),    \
            ALLOW(SYS_futex), ALLOW(SYS_getrandom), ALLOW(SYS_write), ALLOW(SYS_exit),             \
            ALLOW(SYS_exit_group), ALLOW(SYS_rt_sigreturn), /* the storm: */                       \
            ALLOW(SYS_read), ALLOW(SYS_clock_nanosleep), ALLOW(SYS_rt_sigprocmask),                \
            ALLOW(SYS_getpid), /* the figures */                                                   \
            /* glibc's own malloc */                                                               \
            ALLOW(on_toft() ? SYS_mmap : SYS_brk), ALLOW(on_toft() ? SYS_mmap : SYS_mprotect),     \
            ALLOW(on_toft() ? SYS_mmap : SYS_openat), ALLOW(on_toft() ? SYS_mmap : SYS_close),     \
            ALLOW(on_toft() ? SYS_mmap : SYS_sched_getaffinity),                                   \
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),                                   \
    }

/* What the library calls the state of filters, through a pipe that was opened before. */
static int pipe_ends[2];

HELPER void expect_state(const char *wanted)
{
    int (*stats)(int) = (int (*)(int))symbol("toft_stats_json");
    if (!stats)
        return;
    static char text[65536];
    CHECK(stats(pipe_ends[1]) == 0);
    ssize_t n = read(pipe_ends[0], text, sizeof text - 1);
    CHECK(n > 0);
    text[n] = 0;
    char field[64];
    snprintf(field, sizeof field, "\"filter\":\"%s\"", wanted);
    if (!strstr(text, field)) {
        char *found = strstr(text, "\"filter\"");
        dprintf(2, "%s expected, found %.25s\n", field, found ? found : "none");
        CHECK(!"the state of filters");
    }
}

/* The tests may themselves run under a filter, in a container. */
HELPER const char *state_at_start(void)
{
    static char text[8192];
    slurp("/proc/self/status", text, sizeof text);
    char *mode = strstr(text, "\nSeccomp:");
    return mode && strtol(mode + 9, NULL, 10) == 0 ? "none" : "inherited";
}

enum { WORKERS = 4, BLOCKS = 20000 };
static int begun; /* A futex: the round that may begin. */
static int ended; /* Workers that are done with it. */

static size_t mixed_size(struct rng *r)
{
    size_t kind = rng_below(r, 1000);
    return kind < 900 ? 16 + rng_below(r, 2000)
           : kind < 990 ? 2000 + rng_below(r, 60000)
                        : 60000 + rng_below(r, 1000000);
}

static void one_round(size_t seed)
{
    struct rng r = {seed + 1};
    void **block = malloc(BLOCKS * sizeof *block);
    CHECK(block);
    for (int i = 0; i < BLOCKS; i++) {
        size_t n = mixed_size(&r);
        CHECK((block[i] = malloc(n)));
        memset(block[i], i, n);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (i % 1000) {
            free(block[i]);
            block[i] = NULL;
        }
    purge_all();
    for (int i = 0; i < BLOCKS; i++)
        free(block[i]);
    free(block);
}

static void *worker(void *arg)
{
    for (int round = 1; round <= 2; round++) {
        while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) < round)
            syscall(SYS_futex, &begun, 0 /* FUTEX_WAIT */, round - 1, NULL, NULL, 0);
        one_round((size_t)arg * 10 + (size_t)round);
        __atomic_add_fetch(&ended, 1, __ATOMIC_RELEASE);
        syscall(SYS_futex, &ended, 1 /* FUTEX_WAKE */, 1, NULL, NULL, 0);
    }
    return NULL;
}

static void let_them(int round)
{
    __atomic_store_n(&begun, round, __ATOMIC_RELEASE);
    syscall(SYS_futex, &begun, 1 /* FUTEX_WAKE */, WORKERS, NULL, NULL, 0);
    int done;
    while ((done = __atomic_load_n(&ended, __ATOMIC_ACQUIRE)) < round * WORKERS)
        syscall(SYS_futex, &ended, 0 /* FUTEX_WAIT */, done, NULL, NULL, 0);
}

static pthread_t workers[WORKERS];

/* Before the filter is installed. */
HELPER void prepare(void)
{
    CHECK(pipe(pipe_ends) == 0);
    for (size_t i = 0; i < WORKERS; i++)
        workers[i] = spawn(worker, (void *)i);
    one_round(100);
}

/* Afterwards. */
HELPER void storm(void)
{
    let_them(1);
    one_round(101);
    purge_all();
    struct timespec second = {1, 0};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &second, NULL);
    purge_all();
    let_them(2);
    one_round(102);
    for (int i = 0; i < WORKERS; i++)
        join(workers[i]);
    purge_all();
}

#endif
