// Foreign mappings fill the address space: malloc of every size gives memory or ENOMEM, without a
// call that lets time pass. Threads and `setenv` end as they may. Once the mappings are gone there
// is memory again.
// flags: -pthread
// promise: 26 27
// timeout: 300
#include "address_space.h"
#include "filter.h"

#include <stddef.h>

static const size_t sizes[] = {0,     1,      16,     100,     1000,        5000,    20000,
                               60000, 130000, 140000, 1000000, 1ul << 30, 1ul << 44};
enum { SIZES = sizeof sizes / sizeof *sizes, MOST = 4000 };

/* Until there is no more; all of it is freed. */
static void exhaust_all(void)
{
    static char *block[MOST];
    for (int i = 0; i < SIZES; i++) {
        int count = 0;
        errno = 0;
        while (count < MOST && (block[count] = malloc(sizes[i]))) {
            memset(block[count], 1, sizes[i] < 4096 ? sizes[i] : 4096);
            count++;
        }
        CHECK(count == MOST || errno == ENOMEM);
        errno = 0;
        char *aligned = aligned_alloc(4096, (sizes[i] + 4095) / 4096 * 4096);
        CHECK(aligned || errno == ENOMEM);
        free(aligned);
        while (count)
            free(block[--count]);
    }
}

static void *thread(void *arg)
{
    exhaust_all();
    free(malloc(100));
    return arg;
}

static void threads_and_variables(void)
{
    /* libc's own stacks, or what it keeps of them. */
    for (int i = 0; i < 20; i++) {
        pthread_t t;
        int rc = pthread_create(&t, NULL, thread, NULL);
        CHECK(rc == 0 || rc == EAGAIN || rc == ENOMEM);
        if (rc == 0)
            join(t);
        char name[32];
        snprintf(name, sizeof name, "VARIABLE_%d", i);
        errno = 0;
        CHECK(setenv(name, "value", 1) == 0 || errno == ENOMEM);
    }
}

/* A call that lets time pass kills. */
static void forbid_waiting(void)
{
    struct sock_filter rules[] = {
        LOAD_NUMBER,           KILL(SYS_futex), KILL(SYS_nanosleep), KILL(SYS_clock_nanosleep),
        KILL(SYS_sched_yield), KILL(SYS_poll),  KILL(SYS_ppoll),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    INSTALL(rules);
}

static void no_time_passes(void)
{
    forbid_waiting();
    take_everything();
    for (int i = 0; i < 3; i++)
        exhaust_all();
    give_everything_back();
    for (int i = 0; i < SIZES - 1; i++) {
        char *p = malloc(sizes[i]);
        CHECK(p);
        free(p);
    }
}

static void *nothing(void *arg)
{
    return arg;
}

static void everything_works_again(void)
{
    /* libc keeps the stacks of threads that have ended. */
    pthread_t early[4];
    for (int i = 0; i < 4; i++)
        early[i] = spawn(nothing, NULL);
    for (int i = 0; i < 4; i++)
        join(early[i]);
    take_everything();
    exhaust_all();
    threads_and_variables();
    give_everything_back();
    for (int i = 0; i < SIZES - 1; i++) {
        char *p = malloc(sizes[i]);
        CHECK(p);
        free(p);
    }
    for (int i = 0; i < 4; i++)
        join(spawn(thread, NULL));
    CHECK(setenv("VARIABLE", "value", 1) == 0);
}

static void check_in_child(void (*body)(void))
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        body();
        _exit(0);
    }
    reap(pid);
}

int main(void)
{
    /* With a heap, and before there is anything in it. */
    for (int round = 0; round < 2; round++) {
        check_in_child(no_time_passes);
        check_in_child(everything_works_again);
        for (int i = 0; i < SIZES - 2; i++)
            free(malloc(sizes[i]));
    }
    everything_works_again();
    return 0;
}
