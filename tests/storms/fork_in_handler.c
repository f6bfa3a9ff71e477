// Five processes send signals whose handler forks, in the middle of malloc and free of up to 70 000
// bytes; the child allocates too. With other threads at work the handler uses _Fork, as only that
// one may be called there.
// flags: -pthread
// run: single
// run: threads
// timeout: 60
// libc: skip the child's malloc may wait for glibc's own lock
// promise: 23 24
#include "common.h"
#include <sys/mman.h>

static volatile sig_atomic_t handled;
static volatile int stop, threads;

static void handler(int sig)
{
    (void)sig;
    int saved = errno;
    pid_t pid = threads ? _Fork() : fork();
    if (pid == 0) {
        void *p = malloc(100), *q = malloc(30000);
        CHECK(p && q);
        free(p);
        free(q);
        _exit(0);
    }
    CHECK(pid > 0);
    int status;
    while (waitpid(pid, &status, 0) < 0)
        CHECK(errno == EINTR);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    handled++;
    errno = saved;
}

static void work(struct rng *r, void **block, int n)
{
    for (int i = 0; i < n; i++) {
        free(block[i]);
        CHECK((block[i] = malloc(rng_below(r, 70000))));
    }
}

static void *worker(void *arg)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    struct rng r = {(size_t)arg + 5};
    static __thread void *block[50];
    while (!stop)
        work(&r, block, 50);
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    threads = argv[1][0] == 't';
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    pthread_t t[3];
    for (size_t i = 0; i < 3 && threads; i++)
        t[i] = spawn(worker, (void *)i);
    // Where a fork takes longer than the next signal does, the handler would be all that runs.
    volatile int *rounds = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(rounds != MAP_FAILED);
    pid_t parent = getpid(), sender[5];
    for (int i = 0; i < 5; i++)
        if ((sender[i] = _Fork()) == 0)
            for (;;) {
                if (kill(parent, SIGUSR1) != 0 || getppid() != parent)
                    _exit(0);
                int seen = *rounds;
                usleep(2000);
                for (int n = 0; n < 25 && *rounds == seen; n++)
                    usleep(2000);
            }
    struct rng r = {1};
    static void *block[100];
    double end = now() + 4;
    // On a busy machine it takes longer until enough has been seen.
    while (now() < end || *rounds <= 50 || handled <= 50) {
        work(&r, block, 100);
        ++*rounds;
    }
    for (int i = 0; i < 5; i++) {
        kill(sender[i], SIGKILL);
        while (waitpid(sender[i], NULL, 0) < 0)
            CHECK(errno == EINTR);
    }
    stop = 1;
    for (int i = 0; i < 3 && threads; i++)
        join(t[i]);
    announce_number("handled", (size_t)handled);
    announce_number("rounds", (size_t)*rounds);
    CHECK(handled > 50 && *rounds > 50);
    return 0;
}
