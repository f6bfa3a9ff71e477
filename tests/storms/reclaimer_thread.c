// The library's own thread: a small process never has it, a large one does, and so does its child
// when that is large; not where it is switched off. With it, all that ends or replaces a process or
// makes children works as without, no signal of the program is delivered to it, and it is not
// urgent where the program is. It stays, because memory waits for its return.
// flags: -pthread
// env: TOFT_DECAY=3600000
// run: small
// run: large
// run: calls
// run: off
// run: exec
// run: last-thread
// run: stop
// run: children
// run: generations
// run: real-time
// run: signals
// timeout: 60
// libc: skip has no such thread
// promise: 23 24
#include "reclaimer.h"
#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>

extern char **environ;

enum { MIB = 1 << 20, MANY = 20000 };
static void *block[MANY];

NOINLINE void *take(size_t n)
{
    void *p = malloc(n);
    CHECK(p);
    memset(p, 1, n);
    NO_TAIL_CALL();
    return p;
}

/* So many MiB in blocks of 2 KiB, and back again. */
static void grow(int mib)
{
    int n = mib * 512;
    CHECK(n <= MANY);
    for (int i = 0; i < n; i++)
        block[i] = take(2000);
    for (int i = 0; i < n; i++)
        free(block[i]);
}

static void become_large(void)
{
    grow(30);
    CHECK(comes_a_reclaimer(120));
}

static void again(const char *how, const char *variable)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(unsetenv("TOFT_DECAY") == 0); /* it changes nothing without a thread */
        if (variable)
            CHECK(putenv((char *)variable) == 0);
        execl("/proc/self/exe", "again", how, (char *)NULL);
        _exit(127);
    }
    reap(pid);
}

static void *end_last(void *arg)
{
    (void)arg;
    usleep(100000);
    CHECK(has_reclaimer());
    grow(5);
    return NULL; /* libc ends the process: its own threads are all gone */
}

static volatile int handled_by;

static void handler(int sig)
{
    (void)sig;
    handled_by = (int)syscall(SYS_gettid);
}

static void signals(void)
{
    sigset_t all, before;
    struct sigaction action = {.sa_handler = handler};
    become_large();
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_BLOCK, &all, &before) == 0);
    for (int i = 0; i < 100; i++) {
        CHECK(kill(getpid(), SIGUSR1) == 0);
        usleep(500);
        CHECK(!handled_by); /* nobody is there to take it */
    }
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    CHECK(handled_by == getpid());
}

static void children(void)
{
    become_large();
    for (int i = 0; i < 20; i++) {
        CHECK(system("exit 7") >> 8 == 7);
        pid_t pid;
        char *argv[] = {(char *)"true", NULL};
        CHECK(posix_spawnp(&pid, "true", NULL, NULL, argv, environ) == 0);
        reap(pid);
        pid = vfork();
        CHECK(pid >= 0);
        if (pid == 0) {
            free(malloc(3000));
            ((size_t(*)(void))symbol("toft_purge"))();
            execlp("true", "true", (char *)NULL);
            _exit(127);
        }
        reap(pid);
        CHECK(has_reclaimer());
    }
}

/* Each process has its own reclaimer, and ends while it sweeps. None has what its parents' had. */
static void generations(int depth)
{
    CHECK(stacks(getpid()) == 0);
    grow(30);
    CHECK(comes_a_reclaimer(120));
    CHECK(stacks(getpid()) == 1);
    if (depth == 0)
        _exit(0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        generations(depth - 1);
        _exit(0);
    }
    grow(30);
    reap(pid);
}

static void real_time(void)
{
    struct sched_param urgent = {.sched_priority = 10};
    if (sched_setscheduler(0, SCHED_FIFO, &urgent) != 0) {
        CHECK(errno == EPERM || errno == ENOSYS); /* there is nothing to inherit; musl refuses always */
        return;
    }
    become_large();
    for (int i = 0; sched_getscheduler(reclaimer()) != SCHED_OTHER; i++) {
        CHECK(i < 1000); /* it has just come */
        usleep(1000);
    }
    CHECK(sched_getscheduler(0) == SCHED_FIFO);
}

static void stopped(void)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        become_large();
        for (;;)
            grow(30);
    }
    usleep(300000);
    int status;
    for (int i = 0; i < 20; i++) {
        CHECK(kill(pid, SIGSTOP) == 0);
        CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
        CHECK(kill(pid, SIGCONT) == 0);
        usleep(2000 * (unsigned)(i % 5));
    }
    CHECK(kill(pid, SIGTERM) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (!strcmp(how, "small")) {
        /* Much is allocated, and never much at a time. */
        for (int i = 0; i < 50; i++)
            grow(8);
        CHECK(!comes_a_reclaimer(0.3));
    } else if (!strcmp(how, "large")) {
        become_large();
        become_large();
    } else if (!strcmp(how, "none")) {
        grow(30);
        CHECK(!comes_a_reclaimer(0.5));
    } else if (!strcmp(how, "calls")) {
        again("none", "TOFT_RECLAIM=calls");
    } else if (!strcmp(how, "off")) {
        again("none", "TOFT_RECLAIM=off");
    } else if (!strcmp(how, "exec")) {
        become_large();
        execl("/proc/self/exe", "again", "small", (char *)NULL);
        return 1;
    } else if (!strcmp(how, "last-thread")) {
        become_large();
        spawn(end_last, NULL);
        pthread_exit(NULL);
    } else if (!strcmp(how, "stop")) {
        stopped();
    } else if (!strcmp(how, "children")) {
        children();
    } else if (!strcmp(how, "generations")) {
        generations(12);
    } else if (!strcmp(how, "real-time")) {
        real_time();
    } else if (!strcmp(how, "signals")) {
        signals();
    } else {
        return 2;
    }
    return 0;
}
