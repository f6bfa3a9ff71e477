// A program locks what it has and what it will have (mlockall). Each mapping then has all its pages
// at once, so that little is mapped ahead of need, from one call site or from 200. A secure build
// has at most half as much again resident as the default build, and what its threads add.
// flags: -pthread
// promise: 26
// run: 1 0
// run: 200 0
// run: 1 8
// timeout: 120
#include "common.h"
#include "many_sites.h"

enum { THREADS_MOST = 8, EACH = 500, BLOCKS = 100000 };

/* What is resident in the default build without threads, as the program below has printed it on
 * x86-64: with one call site or more, locked after the heap has grown or before. */
static const size_t usual[2][2] = {{124 << 20, 62 << 20}, {124 << 20, 69 << 20}};

/* Threads that begin together each take slabs of up to 512 KiB for the same sizes. */
static const size_t of_thread = 6 << 20;

static int sites, threads;

static void *use_some(void *arg)
{
    char *block[EACH];
    for (size_t i = 0; i < EACH; i++) {
        CHECK((block[i] = malloc(16 + i * 7)));
        memset(block[i], 1, 16 + i * 7);
    }
    for (size_t i = 0; i < EACH; i++)
        free(block[i]);
    return arg;
}

/* Of many call sites each has one size. */
static size_t use(char **block)
{
    size_t live = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t site = i % (size_t)sites;
        size_t size = 16 + (sites == 1 ? i : site) % 64 * 16;
        block[i] = at_site((int)site, size);
        memset(block[i], 1, size);
        live += size;
    }
    return live;
}

/* Some processes may not lock so much. */
static int lock(void)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_MEMLOCK, &limit);
    return mlockall(MCL_CURRENT | MCL_FUTURE) == 0;
}

/* Before or after the heap has grown. */
static void check(int before)
{
    static char *block[BLOCKS], *more[BLOCKS];
    size_t live = before ? 0 : use(block);
    if (!lock())
        _exit(0);
    pthread_attr_t small_stack;
    CHECK(pthread_attr_init(&small_stack) == 0);
    CHECK(pthread_attr_setstacksize(&small_stack, 128 << 10) == 0);
    pthread_t thread[THREADS_MOST];
    for (int i = 0; i < threads; i++)
        CHECK(pthread_create(&thread[i], &small_stack, use_some, NULL) == 0);
    for (int i = 0; i < threads; i++)
        join(thread[i]);
    live += use(more);
    size_t resident = rss_bytes();
    printf("live %zu KiB, resident %zu KiB\n", live >> 10, resident >> 10);
    CHECK(resident <= usual[sites > 1][before] / 2 * 3 + (size_t)threads * of_thread);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    sites = atoi(argv[1]);
    threads = atoi(argv[2]);
    CHECK(sites > 0 && threads <= THREADS_MOST);
    for (int before = 0; before < 2; before++) {
        fflush(stdout);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            check(before);
            fflush(stdout);
            _exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    return 0;
}
