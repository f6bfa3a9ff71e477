// malloc and realloc from a handler that a timer runs in the middle of malloc: nothing hangs, and
// nothing is corrupted where the handler allocates other sizes than what it interrupts
// (docs/failure-modes.md).
// timeout: 60
// promise: 24
// libc: skip glibc takes a lock in malloc that a handler waits for
#include "common.h"
#include <sys/time.h>

static volatile sig_atomic_t ticks;

static void tick(int sig)
{
    (void)sig;
    int saved = errno;
    unsigned char *p = malloc(900 + (size_t)ticks % 100);
    if (p) {
        fill(p, 100, 1);
        p = realloc(p, 3000);
        if (p) {
            CHECK(filled(p, 100, 1));
            free(p);
        }
    }
    ticks++;
    errno = saved;
}

int main(void)
{
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval every = {{0, 200}, {0, 200}};
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    enum { N = 500 };
    static unsigned char *block[N];
    struct rng r = {3};
    double end = now() + 4;
    while (now() < end || ticks <= 100)
        for (int i = 0; i < N; i++) {
            if (block[i])
                CHECK(filled(block[i], 50, (uint64_t)i));
            free(block[i]);
            size_t size = i % 30 ? 50 + rng_below(&r, 800) : 4000 + rng_below(&r, 86000);
            CHECK((block[i] = malloc(size)));
            fill(block[i], 50, (uint64_t)i);
        }
    CHECK(ticks > 100);
    return 0;
}
