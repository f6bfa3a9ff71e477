// Two threads free the same block at the same time, 200 times, by owner and stranger or by two
// strangers, small, medium and large. Or strangers that have just freed blocks beside it, so that
// one of them publishes its frees later. Each process dies by SIGABRT and names a double free, at
// the call or, in a true data race, when the owner collects.
// flags: -pthread
// run: 64 owner
// run: 5000 owner
// run: 300000 owner
// run: 64 strangers
// run: 5000 strangers
// run: 300000 strangers
// run: 64 owner gathered
// run: 64 strangers gathered
// run: 1000 owner gathered
// timeout: 120
// libc: skip glibc misses races
// promise: 4 30
#include "common.h"

static size_t size;
static int by_owner, gathered;
enum { BESIDE = 6 };
static void *beside[2][BESIDE];
static void *volatile shared;
static pthread_barrier_t barrier;

static void *freer(void *arg)
{
    for (int i = 0; arg && i < BESIDE; i++)
        free(((void **)arg)[i]);
    pthread_barrier_wait(&barrier);
    free(launder(shared));
    return NULL;
}

/* Two strangers race for a block of the main thread; or one and the main thread itself. Then the
 * main thread, which owns it, works in its class, so that nothing stays uncollected. */
static void race(void)
{
    pthread_t t[2] = {0};
    CHECK((shared = malloc(size)));
    pthread_barrier_init(&barrier, NULL, 2);
    for (int i = 0; gathered && i < 2 * BESIDE; i++)
        CHECK((beside[i / BESIDE][i % BESIDE] = malloc(size)));
    t[0] = spawn(freer, gathered ? beside[0] : NULL);
    if (by_owner)
        freer(NULL);
    else
        t[1] = spawn(freer, gathered ? beside[1] : NULL);
    join(t[0]);
    if (!by_owner)
        join(t[1]);
    static void *p[3000];
    int n = size > 100000 ? 50 : 3000;
    for (int i = 0; i < n; i++)
        CHECK((p[i] = malloc(size)));
    for (int i = 0; i < n; i++)
        free(p[i]);
    purge_all();
}

int main(int argc, char **argv)
{
    CHECK(argc == 3 || argc == 4);
    gathered = argc == 4;
    size = strtoul(argv[1], NULL, 10);
    by_owner = argv[2][0] == 'o';
    static char text[65536];
    for (int i = 0; i < 200; i++) {
        int status = in_child(race, text, sizeof text);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        CHECK(strncmp(text, "toft: double free: free", 23) == 0);
    }
    return 0;
}
