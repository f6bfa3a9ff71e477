// TOFT_PKEY: the tables have a key and what malloc hands out has none; all calls go on as always,
// by every thread, in signal handlers that interrupt calls, in children, at a thread's end, for
// zones.
// flags: -pthread
// env: TOFT_PKEY=1
// build: secure the other build has no doors
// libc: skip it has no such option
// machine: pkeys it is about them
#include "../keyed.h"
#include "../zones.h"
#include <sys/time.h>

static volatile long handled;

static void on_alarm(int signal)
{
    (void)signal;
    int error = errno;
    void *p = malloc(300), *q = malloc(200000);
    if (p && q)
        handled++;
    CHECK(malloc_usable_size(p) >= 300);
    free(p);
    free(q);
    errno = error;
}

static void work(size_t seed, int rounds)
{
    struct rng r = {seed + 1};
    void *block[100] = {NULL};
    for (int i = 0; i < rounds; i++) {
        size_t k = rng_below(&r, 100);
        switch (rng_below(&r, 4)) {
        case 0:
            free(block[k]);
            block[k] = calloc(1, rng_below(&r, 3000));
            break;
        case 1:
            block[k] = realloc(block[k], 1 + rng_below(&r, 300000));
            break;
        default:
            free(block[k]);
            block[k] = malloc(rng_below(&r, 2000));
        }
        CHECK(block[k]);
    }
    for (int i = 0; i < 100; i++)
        free(block[i]);
}

static void *worker(void *arg)
{
    work((size_t)arg, 20000);
    return NULL;
}

int main(void)
{
    char *p = launder(malloc(1000)), *large = launder(malloc(1 << 20));
    CHECK(keyed_page(NULL));
    CHECK(!keyed_page(p) && !keyed_page(large) && !keyed_page(&p));
    memset(p, 1, 1000);
    memset(large, 1, 1 << 20);
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    /* With every signal held back in it, a handler cannot be helped by another. */
    sigfillset(&action.sa_mask);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval every = {{0, 300}, {0, 300}};
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    pthread_t t[3];
    for (size_t i = 0; i < 3; i++)
        t[i] = spawn(worker, (void *)i);
    work(9, 20000);
    for (int i = 0; i < 10; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            work(3, 2000);
            CHECK(keyed_page(NULL));
            _exit(0);
        }
        reap(pid);
    }
    for (int i = 0; i < 3; i++)
        join(t[i]);
    struct itimerval never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(handled > 0);
    uint64_t zone = zone_named("behind the door");
    CHECK(from_zone(zone, 100) && zone_verify(zone) == 0 && zone_destroy(zone) == 0);
    CHECK(malloc_trim(0) >= 0 && mallinfo2().uordblks >= 1000);
    free(p);
    free(large);
    return 0;
}
