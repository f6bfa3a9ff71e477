// What the builds of the experiment about parallelism count, against what the program does. A dead
// counter and a counter of too much both fail.
// flags: -pthread -O2
// timeout: 60
// libc: skip it counts nothing
//
// Arguments: the kind of locks (none, arena, class) and whether there are caches (0, 1); the number
// of arenas is in TOFT_EXPERIMENT_ARENAS.
#include "common.h"
#include <sys/mman.h>

extern int toft_stats_json(int) __attribute__((weak));

enum { N = 20000, SLACK = 200, WORKERS = 4 };
static void *block[N];
static char text[1 << 17];

static long count(const char *name)
{
    int file = memfd_create("counts", 0);
    CHECK(file >= 0 && toft_stats_json && toft_stats_json(file) == 0);
    ssize_t length = pread(file, text, sizeof text - 1, 0);
    CHECK(length > 0);
    text[length] = 0;
    close(file);
    char key[64];
    snprintf(key, sizeof key, "\"experiment_%s\":", name);
    char *found = strstr(text, key);
    CHECK(found);
    return strtol(found + strlen(key), NULL, 10);
}

static void take_all(void)
{
    for (int i = 0; i < N; i++)
        CHECK((block[i] = malloc(100)));
}

static void *free_all(void *arg)
{
    for (int i = 0; i < N; i++)
        free(block[i]);
    return arg;
}

static void *own(void *arg)
{
    take_all();
    return free_all(arg);
}

/* As many at a time as no cache holds. */
static void *hammer(void *arg)
{
    void *p[64];
    for (int round = 0; round < 1000; round++) {
        for (int i = 0; i < 64; i++)
            CHECK((p[i] = malloc(100)));
        for (int i = 0; i < 64; i++)
            free(p[i]);
    }
    return arg;
}

static long contended_by_hammering(void)
{
    long before = count("contended_acquisitions");
    pthread_t t[WORKERS];
    for (size_t i = 0; i < WORKERS; i++)
        t[i] = spawn(hammer, NULL);
    for (int i = 0; i < WORKERS; i++)
        join(t[i]);
    return count("contended_acquisitions") - before;
}

static void about(const char *what, long is, long least, long most)
{
    if (is < least || is > most)
        fprintf(stderr, "%s: %ld, not %ld to %ld\n", what, is, least, most);
    CHECK(is >= least && is <= most);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    int locks = strcmp(argv[1], "none") != 0, caches = argv[2][0] == '1';
    long arenas = strtol(getenv("TOFT_EXPERIMENT_ARENAS"), NULL, 10);
    CHECK(count("arenas") == (locks ? arenas : 0));

    long operations = count("operations"), taken = count("lock_acquisitions");
    long hits = count("cache_hits");
    own(NULL);
    operations = count("operations") - operations;
    taken = count("lock_acquisitions") - taken;
    hits = count("cache_hits") - hits;
    about("operations", operations, 2 * N, 2 * N + SLACK);
    if (!locks)
        about("locks of none", taken, 0, 0);
    else if (!caches)
        about("locks", taken, operations - SLACK, operations);
    else
        about("locks behind a cache", taken, N / 8, N / 2);
    about("cache hits", hits, caches ? N / 2 : 0, caches ? N : 0);

    long transfers = count("transfers");
    join(spawn(own, NULL));
    transfers = count("transfers") - transfers;
    about("transfers of a thread's own blocks", transfers, 0, SLACK);
    transfers = count("transfers");
    take_all();
    join(spawn(free_all, NULL));
    transfers = count("transfers") - transfers;
    int shared = locks && arenas == 1;
    about("transfers", transfers, shared ? 0 : N, shared ? 0 : N + SLACK);

    if (!locks || arenas > WORKERS) {
        about("contention of threads apart", contended_by_hammering(), 0, locks ? SLACK : 0);
        return 0;
    }
    /* Whether two threads meet is up to the machine; that they never do is not. */
    double end = now() + 40;
    long contended = 0;
    while (contended == 0 && now() < end)
        contended = contended_by_hammering();
    about("contention", contended, 1, (long)1 << 40);
    return 0;
}
