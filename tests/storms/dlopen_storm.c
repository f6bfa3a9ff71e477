// Threads open, use and close libraries with dynamic TLS while others allocate: the loader takes
// and gives blocks from inside itself, in every thread.
// aux: tls_plugin.c
// flags: -pthread
// libs: -ldl
// timeout: 60
// promise: 24
#include "common.h"

static char path[4096];
static volatile int stop;
static volatile unsigned long opened;

static void *opener(void *arg)
{
    struct rng r = {(size_t)arg + 1};
    while (!stop) {
        void *lib = dlopen(path, RTLD_NOW);
        CHECK(lib);
        void *(*touch)(size_t) = (void *(*)(size_t))dlsym(lib, "tls_plugin_touch");
        void *(*leave)(void) = (void *(*)(void))dlsym(lib, "tls_plugin_leave");
        CHECK(touch && leave);
        for (int i = 0; i < 20; i++)
            free(touch(rng_below(&r, 3000)));
        free(leave());
        CHECK(dlclose(lib) == 0);
        CHECK(dlopen("/nonexistent/library.so", RTLD_NOW) == NULL);
        CHECK(dlerror());
        __atomic_fetch_add(&opened, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void *visitor(void *arg)
{
    opener(arg);
    return NULL;
}

static void *churn(void *arg)
{
    while (!stop)
        for (size_t i = 0; i < 1000; i++)
            free(malloc(i * 30));
    return arg;
}

int main(void)
{
    snprintf(path, sizeof path, "%s/%s-tls_plugin.so", getenv("AUX_DIR"), getenv("TEST_NAME"));
    pthread_t t[6];
    for (size_t i = 0; i < 6; i++)
        t[i] = spawn(i < 4 ? visitor : churn, (void *)i);
    sleep(3);
    stop = 1;
    for (int i = 0; i < 6; i++)
        join(t[i]);
    CHECK(opened > 50);
    return 0;
}
