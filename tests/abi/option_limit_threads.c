// Nine threads at TOFT_LIMIT=48m: every function fails with ENOMEM and no other effect. After frees
// all of them work again. At no moment is more resident than the limit, a slab or a block for each
// thread, and the tables.
// flags: -pthread
// env: TOFT_LIMIT=48m
// stderr: toft: TOFT_LIMIT refused a block of {n} bytes{re:.*}: {n} of 50331648 bytes are in use; later refusals are not reported
// libc: skip it has no limit
// timeout: 120
// promise: 26 27
#include "limit.h"

static volatile int done;

static void *watch(void *arg)
{
    size_t start = *(size_t *)arg, most = 0;
    while (!done) {
        size_t now = rss_bytes();
        most = now > most ? now : most;
    }
    announce_number("most", most - start);
    CHECK(most <= start + (48 << 20) + 9 * (1 << 20) + (3 << 20));
    return NULL;
}

int main(void)
{
    free(malloc(100));
    size_t start = rss_bytes();
    pthread_t watcher = spawn(watch, &start);
    exhaust_with_threads(9);
    done = 1;
    join(watcher);
    return 0;
}
