// build: secure walls
// What is kept of freed large blocks is kept for the time of TOFT_DECAY, is returned to the OS when
// it has passed, and makes room under a limit before malloc returns NULL.
// promise: 14
// env: TOFT_DECAY=1000
// env: TOFT_RECLAIM=thread
// libc: skip its threshold for mappings moves
#include "common.h"
#include <sys/resource.h>

enum { N = 16, EACH = 2 << 20, SLACK = 2 << 20, DECAY = 1 };
static char *block[N];

int main(void)
{
    free(malloc(1000));
    size_t rss = rss_bytes();
    for (int i = 0; i < N; i++) {
        CHECK(block[i] = malloc(EACH));
        memset(launder(block[i]), 1, EACH);
    }
    double begin = now();
    for (int i = 0; i < N / 2; i++)
        free(block[i]);
    size_t live = (size_t)N / 2 * EACH;
    int seen = rss_bytes() > rss + live + (size_t)N / 4 * EACH;
    // On a loaded machine the time may have passed by then.
    CHECK(seen || now() > begin + DECAY);
    double end = now() + 120;
    while (rss_bytes() > rss + live + SLACK) {
        CHECK(now() < end);
        usleep(10000);
    }
    CHECK(!seen || now() > begin + DECAY / 2.0);

    // Address space for little more than what is live: kept pages are in the way.
    for (int i = 0; i < N / 2; i++) {
        CHECK(block[i] = malloc(EACH));
        memset(launder(block[i]), 1, EACH);
    }
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = vsz_bytes() + EACH / 2;
    for (int i = 0; i < N / 2; i++)
        free(block[i]);
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    char *p = malloc((size_t)N / 2 * EACH);
    CHECK(p);
    memset(launder(p), 1, (size_t)N / 2 * EACH);
    free(p);
    return 0;
}
