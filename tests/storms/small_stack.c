// A thread with the smallest stack that glibc allows, 16 KiB (musl: 2), does everything that an
// allocator does, the first allocation, slow paths and large blocks included.
// flags: -pthread
// promise: 24 25
#include "common.h"

static void *thread(void *arg)
{
    for (size_t size = 1; size < 3000000; size = size * 3 / 2 + 1) {
        void *p = malloc(size), *q = calloc(1, size), *r = memalign(4096, size);
        CHECK(p && q && r);
        p = realloc(p, size * 2);
        CHECK(p);
        free(q);
        free(r);
        free(p);
    }
    void *many[100];
    for (int i = 0; i < 100; i++)
        CHECK((many[i] = malloc(30000)));
    for (int i = 0; i < 100; i++)
        free(many[i]);
    purge_all();
    return arg;
}

int main(void)
{
    size_t smallest = (size_t)sysconf(_SC_THREAD_STACK_MIN);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    CHECK(pthread_attr_setstacksize(&attr, smallest > 16384 ? smallest : 16384) == 0);
    for (int i = 0; i < 50; i++) {
        pthread_t t;
        CHECK(pthread_create(&t, &attr, thread, NULL) == 0);
        join(t);
    }
    return 0;
}
