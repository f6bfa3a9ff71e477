// realloc and calloc in a loop from a handler that a timer runs in the middle of malloc: nothing
// hangs and nothing is corrupted.
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
    unsigned char *p = malloc(100 + (size_t)ticks % 1000);
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
    while (now() < end)
        for (int i = 0; i < N; i++) {
            if (block[i])
                CHECK(filled(block[i], 50, (uint64_t)i));
            free(block[i]);
            CHECK((block[i] = malloc(50 + rng_below(&r, i % 30 ? 900 : 90000))));
            fill(block[i], 50, (uint64_t)i);
        }
    CHECK(ticks > 100);
    return 0;
}
