// In a cgroup whose limit the kernel enforces: with TOFT_LIMIT=80% a program that takes what it can
// get, and writes to all of it, is told that there is no more; without, it is killed. And where the
// group is nearly full, what was freed is returned to the OS long before its time.
// stderr-any: the first refusal of a limit is reported
// libc: skip it has no limit
// timeout: 120
#include "limit.h"
#include <signal.h>
#include <sys/stat.h>

enum { LIMIT = 96 << 20 };
static char group[600];

static int put(const char *name, const char *text)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", group, name);
    int fd = open(path, O_WRONLY);
    if (fd < 0)
        return 0;
    int ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return ok;
}

static int put_number(const char *name, size_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%zu", number);
    return put(name, text);
}

/* Makes a group within the test's own, which may have `bytes` bytes; returns the reason if it
 * cannot. */
static const char *make_group(size_t bytes)
{
    static char text[8192];
    slurp("/proc/self/cgroup", text, sizeof text);
    char above[500] = "", *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *names = strchr(line, ':');
        char *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        if (strstr(names, "memory"))
            snprintf(above, sizeof above, "/sys/fs/cgroup/memory%s", path);
        else if (!names[1] && !*above)
            snprintf(above, sizeof above, "/sys/fs/cgroup%s", path);
    }
    snprintf(group, sizeof group, "%s", above);
    put("cgroup.subtree_control", "+memory");
    snprintf(group, sizeof group, "%s/toft-test-%d", above, (int)getpid());
    if (mkdir(group, 0755) != 0)
        return "no group can be made here";
    int v2 = put_number("memory.max", bytes);
    if (!v2 && !put_number("memory.limit_in_bytes", bytes))
        return "the group has no limit of memory";
    if (v2)
        put("memory.swap.max", "0");
    else
        put_number("memory.memsw.limit_in_bytes", bytes);
    return NULL;
}

static void remove_group(void)
{
    for (int i = 0; i < 100 && rmdir(group) != 0; i++)
        usleep(10000);
}

/* How a program in the group ends. */
static int run(const char *self, const char *what, const char *limit)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int fd = open("/proc/self/oom_score_adj", O_WRONLY);
        if (fd >= 0 && write(fd, "1000", 4) == 4)
            close(fd);
        CHECK(put("cgroup.procs", "0"));
        if (limit)
            setenv("TOFT_LIMIT", limit, 1);
        execl("/proc/self/exe", self, what, NULL);
        _exit(9);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static void take_all(void)
{
    struct node *list = NULL;
    size_t got = 0;
    errno = 0;
    for (size_t i = 0;; i++) {
        static const size_t sizes[] = {40, 700, 3000, 20000, 90000, 300000};
        size_t size = sizes[i % (sizeof sizes / sizeof *sizes)];
        struct node *n = malloc(size);
        if (!n)
            break;
        memset(n, 0x5A, size);
        n->next = list;
        n->size = size;
        list = n;
        got += size;
    }
    CHECK(errno == ENOMEM);
    CHECK(got > LIMIT / 2);
    release(list);
}

static void be_tight(void)
{
    enum { N = 90000 };
    static char *block[N];
    for (int i = 0; i < N; i++) {
        CHECK((block[i] = malloc(1000)));
        memset(block[i], 7, 1000);
    }
    size_t all = rss_bytes();
    for (int i = 0; i < N; i++)
        if (i % 500)
            free(block[i]);
    /* Empty slabs may have gone already, so that the group is not short of memory when it is looked at: what lives makes it
     * so again. */
    static char *more[16];
    size_t count = 0;
    for (double end = now() + 20; now() < end; usleep(20000)) {
        size_t resident = rss_bytes();
        if (resident < all - (50 << 20))
            return;
        if (resident < LIMIT / 100 * 93 && count < sizeof more / sizeof *more) {
            CHECK((more[count] = malloc(1 << 20)));
            memset(more[count++], 7, 1 << 20);
        }
    }
    CHECK(!"what is free goes back");
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "take") == 0) {
        take_all();
        return 0;
    }
    if (argc == 2) {
        be_tight();
        return 0;
    }
    const char *reason = make_group(LIMIT);
    if (reason) {
        remove_group();
        dprintf(2, "skipped: %s\n", reason);
        return 0;
    }
    int with = run(argv[0], "take", "80%");
    int without = run(argv[0], "take", NULL);
    setenv("TOFT_DECAY", "600000", 1);
    int tight = run(argv[0], "tight", NULL);
    remove_group();
    CHECK(with == 0);
    CHECK(WIFSIGNALED(without) && WTERMSIG(without) == SIGKILL);
    CHECK(tight == 0);
    return 0;
}
