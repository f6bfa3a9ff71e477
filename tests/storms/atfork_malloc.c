// fork handlers of the program, registered before and after the allocator's, allocate and free in
// all three phases while other threads do so too.
// flags: -pthread
// timeout: 40
// promise: 23 24
#include "common.h"

static volatile int stop;
static void *kept[6];
static int calls;

static void phase(int which)
{
    void *p[50];
    for (size_t i = 0; i < 50; i++)
        CHECK((p[i] = malloc(i * (i % 7 ? 30 : 20000))));
    free(kept[which]);
    kept[which] = p[25];
    for (int i = 0; i < 50; i++)
        if (i != 25)
            free(p[i]);
    calls++;
}

static void prepare(void) { phase(0); }
static void parent(void) { phase(1); }
static void child(void) { phase(2); }

/* How often the handlers are registered. musl does not run .preinit_array. */
static int sets;

/* Before the constructor of any library. */
static void early(void)
{
    pthread_atfork(prepare, parent, child);
    sets++;
}
__attribute__((section(".preinit_array"), used)) static void (*const in_preinit)(void) = early;

static void *worker(void *arg)
{
    struct rng r = {(size_t)arg + 3};
    void *block[100] = {NULL};
    while (!stop) {
        size_t i = rng_below(&r, 100);
        free(block[i]);
        CHECK((block[i] = malloc(rng_below(&r, 5000))));
    }
    for (int i = 0; i < 100; i++)
        free(block[i]);
    return NULL;
}

int main(void)
{
    CHECK(pthread_atfork(prepare, parent, child) == 0);
    sets++;
    pthread_t t[4];
    for (size_t i = 0; i < 4; i++)
        t[i] = spawn(worker, (void *)i);
    double end = now() + 3;
    int forks = 0;
    while (now() < end || forks <= 10) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            phase(3);
            _exit(0);
        }
        reap(pid);
        forks++;
    }
    stop = 1;
    for (int i = 0; i < 4; i++)
        join(t[i]);
    /* Two calls of each set of handlers in this process. */
    CHECK(forks > 10 && calls >= 2 * sets * forks);
    return 0;
}
