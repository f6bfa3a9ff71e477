// When the cgroup comes near memory.high, free memory is returned that would otherwise wait for its
// time; while there is room it waits.
// env: TOFT_DECAY=600000
// libc: skip it has no reclaimer
// timeout: 60
#include "limit_cgroup.h"

enum { N = 60000 };
static char *block[N];

static int falls_within(double seconds, size_t below)
{
    for (double end = now() + seconds; now() < end; usleep(20000))
        if (rss_bytes() < below)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 1) {
        if (!make_cgroup())
            return 0;
        put_number("/sys/fs/cgroup/a/b/memory.high", 100 << 20);
        put_number("/sys/fs/cgroup/a/b/memory.current", 50 << 20);
        execl("/proc/self/exe", argv[0], "child", NULL);
        return 1;
    }
    for (int i = 0; i < N; i++) {
        block[i] = malloc(1000);
        CHECK(block[i]);
        memset(block[i], 7, 1000);
    }
    size_t all = rss_bytes();
    for (int i = 0; i < N; i++)
        if (i % 500)
            free(block[i]);
    CHECK(!falls_within(3, all - (20 << 20)));
    put_number("/sys/fs/cgroup/a/b/memory.current", 95 << 20);
    CHECK(falls_within(20, all - (30 << 20)));
    for (int i = 0; i < N; i += 500)
        CHECK(block[i][999] == 7);
    return 0;
}
