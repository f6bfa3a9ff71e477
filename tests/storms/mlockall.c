// Under mlockall(MCL_CURRENT | MCL_FUTURE), where every new mapping is resident at once and the
// kernel refuses to drop pages: allocation works, calloc still gives zeros, and what is locked is
// in proportion to the requested size.
// flags: -pthread
// timeout: 60
// promise: 24 26
#include "common.h"

static void *thread(void *arg)
{
    for (size_t i = 0; i < 2000; i++)
        free(malloc(i * 17));
    return arg;
}

int main(void)
{
    free(malloc(10));
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        /* An unprivileged user may lock 8 MiB: then there is nothing to be tested. */
        CHECK(geteuid() != 0 && (errno == ENOMEM || errno == EPERM));
        puts("not allowed to lock memory");
        return 0;
    }
    CHECK(rss_bytes() < 200 << 20);
    for (int round = 0; round < 5; round++) {
        static const size_t sizes[] = {100, 1000, 50000, 150000, 3000000};
        for (int s = 0; s < 5; s++) {
            unsigned char *p[10];
            for (int i = 0; i < 10; i++) {
                CHECK((p[i] = calloc(1, sizes[s])));
                for (size_t at = 0; at < sizes[s]; at++)
                    CHECK(p[i][at] == 0);
                memset(p[i], 0xDD, sizes[s]);
            }
            for (int i = 0; i < 10; i++)
                free(p[i]);
            purge_all();
        }
    }
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 128 << 10);
    for (int i = 0; i < 20; i++) {
        pthread_t t;
        CHECK(pthread_create(&t, &attr, thread, NULL) == 0);
        join(t);
    }
    static unsigned char *block[20000];
    for (int i = 0; i < 20000; i++)
        CHECK((block[i] = malloc(500)));
    unsigned char *big = malloc(20 << 20);
    CHECK(big);
    big = realloc(big, 40 << 20);
    CHECK(big);
    big[(40 << 20) - 1] = 1;
    announce_number("rss", rss_bytes());
    CHECK(rss_bytes() < 400 << 20);
    free(big);
    for (int i = 0; i < 20000; i++)
        free(block[i]);
    return 0;
}
