// While the system refuses memory, the library starts no thread, whose stack would take addresses
// that the program needs. It starts one again when the system grants memory again.
// flags: -pthread
// timeout: 300
// promise: 26
// libc: skip it has no such thread
// aarch64: skip qemu takes no limit on addresses
#include "reclaimer.h"

enum { SIZE = 2000, COUNT = 30000, MORE = 400000 };

static char *block[COUNT + MORE];

static void limit(rlim_t bytes)
{
    struct rlimit now;
    CHECK(getrlimit(RLIMIT_AS, &now) == 0);
    now.rlim_cur = bytes;
    CHECK(setrlimit(RLIMIT_AS, &now) == 0);
}

/* The bytes of addresses that the process has. */
static rlim_t addresses(void)
{
    unsigned long pages;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* Takes blocks from `first` on, at most up to `end`; returns where it stopped. */
static int take(int first, int end)
{
    while (first < end && (block[first] = launder(malloc(SIZE))))
        memset(block[first++], 1, SIZE);
    return first;
}

static void give(int first, int end)
{
    for (int i = first; i < end; i++)
        free(block[i]);
}

int main(void)
{
    CHECK(take(0, COUNT) == COUNT);
    CHECK(comes_a_reclaimer(60));
    limit(addresses() + (20 << 20));
    int last = take(COUNT, COUNT + MORE);
    CHECK(last < COUNT + MORE);
    /* The thread ends when nothing is idle. A look takes memory, so there are few. */
    give(last - 500, last);
    last -= 500;
    int looks = 0;
    do
        sleep(3);
    while (has_reclaimer() && ++looks < 40);
    CHECK(!has_reclaimer());
    /* The slow paths of all these frees start none. */
    give(COUNT, last);
    usleep(300000);
    CHECK(!has_reclaimer());
    int again = take(COUNT, last);
    CHECK(again >= last - (last - COUNT) / 50);
    last = again;
    limit(RLIM_INFINITY);
    last = take(last, COUNT + MORE);
    give(0, last);
    CHECK(comes_a_reclaimer(60));
    return 0;
}
