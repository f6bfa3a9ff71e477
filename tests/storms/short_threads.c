// 100 000 short threads, each of which allocates, frees and leaves one block for the main thread to
// free; neither resident memory nor bytes in use grow. In the secure build they do while
// quarantines fill, which are as many as threads at once and hold at most 3 MiB each; then not any
// more.
// flags: -pthread
// timeout: 180
// promise: 25
// aarch64: skip takes many minutes under qemu
#include "common.h"

enum { TOTAL = 100000, AT_ONCE = 8, QUARANTINE = 3 << 20 };

static void *short_thread(void *arg)
{
    size_t n = (size_t)arg;
    void *p[20];
    for (size_t i = 0; i < 20; i++)
        CHECK((p[i] = malloc(16 + (n * 7 + i * 50) % 1500)));
    for (size_t i = 1; i < 20; i++)
        free(p[i]);
    return p[0];
}

int main(void)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 128 << 10);
    size_t rss = 0, use = 0, first = rss_bytes();
    /* The secure build knows the requested size. */
    void *probe = malloc(1);
    size_t look = malloc_usable_size(probe) == 1 ? TOTAL / 2 : TOTAL / 10;
    free(probe);
    for (size_t n = 0; n < TOTAL; n += AT_ONCE) {
        pthread_t t[AT_ONCE];
        for (size_t i = 0; i < AT_ONCE; i++)
            CHECK(pthread_create(&t[i], &attr, short_thread, (void *)(n + i)) == 0);
        for (size_t i = 0; i < AT_ONCE; i++)
            free(join(t[i]));
        if (n == look) {
            rss = rss_bytes();
            use = mallinfo2().uordblks;
        }
    }
    CHECK(rss_bytes() < rss + (2 << 20));
    CHECK(look == TOTAL / 10 || rss < first + (AT_ONCE + 1) * QUARANTINE + (8 << 20));
    CHECK(mallinfo2().uordblks < use + 100000);
    return 0;
}
