// A program locks what it has and what it will have (mlockall). Each mapping then has all its pages
// at once, so that little is mapped ahead of need: what is resident stays near what is live.
// flags: -pthread
// promise: 26
// timeout: 120
#include "common.h"

enum { THREADS = 8, EACH = 500, BLOCKS = 100000 };

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

static size_t use(char **block)
{
    size_t live = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = 16 + i % 64 * 16;
        CHECK((block[i] = malloc(size)));
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
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], &small_stack, use_some, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        join(thread[i]);
    live += use(more);
    size_t resident = rss_bytes();
    printf("live %zu KiB, resident %zu KiB\n", live >> 10, resident >> 10);
    CHECK(resident <= 2 * live + (48 << 20));
}

int main(void)
{
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
