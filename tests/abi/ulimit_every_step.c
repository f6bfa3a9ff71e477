// RLIMIT_AS at every step, from less than the process has to some MB more: malloc of every size
// gives memory that can be used, or ENOMEM. What was had once is had again after a free, but for
// what the allocator's own tables take when they grow meanwhile; and a thread may be born or not.
// flags: -pthread
// promise: 26 27
// timeout: 600
#include "common.h"

static const size_t sizes[] = {16, 100, 1000, 5000, 20000, 60000, 140000, 1000000, 10000000, 1ul << 40};
enum { SIZES = sizeof sizes / sizeof *sizes, BLOCKS = 2000, STEPS = 48 };
/* The limit is on addresses, so a block's first bytes and its last one show that it can be used. */
enum { FILLED = 5000 };
/* Tables grow by 64 KiB, each on its own, and the least that is mapped for blocks of 60 000 bytes is 512 KiB. Where the
   rest is smaller than a block, there is one block less. */
enum { TABLES = 1 << 20 };
static char *block[BLOCKS];

static size_t exhaust(size_t size)
{
    size_t count = 0;
    errno = 0;
    while (count < BLOCKS && (block[count] = malloc(size))) {
        fill(block[count], size < FILLED ? size : FILLED, count);
        block[count][size - 1] = (char)count;
        count++;
    }
    CHECK(count == BLOCKS || errno == ENOMEM);
    for (size_t i = 0; i < count; i++) {
        CHECK(filled(block[i], size <= FILLED ? size - 1 : FILLED, i) && block[i][size - 1] == (char)i);
        free(block[i]);
    }
    return count;
}

static void *thread(void *arg)
{
    for (int i = 0; i < SIZES; i++)
        exhaust(sizes[i]);
    return arg;
}

static void step(size_t limit)
{
    struct rlimit as = {limit, limit};
    CHECK(setrlimit(RLIMIT_AS, &as) == 0);
    for (int i = 0; i < SIZES; i++) {
        size_t had = exhaust(sizes[i]) * sizes[i];
        CHECK((exhaust(sizes[i]) + 1) * sizes[i] + TABLES >= had);
    }
    pthread_t t;
    int rc = pthread_create(&t, NULL, thread, NULL);
    CHECK(rc == 0 || rc == EAGAIN || rc == ENOMEM);
    if (rc == 0)
        join(t);
    errno = 0;
    CHECK(setenv("VARIABLE", "value", 1) == 0 || errno == ENOMEM);
    exhaust(100);
}

/* From the very start on: the loader may fail, and what has begun must end. */
static void start_under(const char *self, size_t limit)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct rlimit as = {limit, limit};
        setrlimit(RLIMIT_AS, &as);
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 2);
        execl(self, "again", "step", (char *)NULL);
        _exit(127);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    /* The kernel itself kills a program that it has no room for. */
    int killed = WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGSEGV);
    CHECK(killed ? limit < (4u << 20) : WIFEXITED(status));
    CHECK(killed || WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 127);
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        struct rlimit as;
        CHECK(getrlimit(RLIMIT_AS, &as) == 0);
        step(as.rlim_cur);
        return 0;
    }
    size_t vsz = vsz_bytes();
    for (size_t i = 0; i < STEPS; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            step(vsz - vsz / 4 + i * (vsz / 4 + (12u << 20)) / STEPS);
            _exit(0);
        }
        reap(pid);
    }
    for (size_t i = 1; i <= 48; i++)
        start_under("/proc/self/exe", i * (1u << 20));
    return 0;
}
