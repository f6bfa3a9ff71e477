// TOFT_LIMIT=50% is half of the tightest memory.max above the process.
// stderr-any: the first refusal of a limit is reported
// libc: skip it has no limit
#include "limit_cgroup.h"

static size_t all_there_is(void)
{
    struct node *list = exhaust(100000);
    size_t got = 0;
    for (struct node *n = list; n; n = n->next)
        got += n->size;
    release(list);
    return got;
}

int main(int argc, char **argv)
{
    if (argc == 2) {
        size_t got = all_there_is();
        announce_number("got", got);
        CHECK(got > (30 << 20) && got < (48 << 20));
        return 0;
    }
    if (!make_cgroup())
        return 0;
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put_number("/sys/fs/cgroup/a/memory.max", 96 << 20);
    put_number("/sys/fs/cgroup/memory.max", (size_t)1 << 40);
    setenv("TOFT_LIMIT", "50%", 1);
    execl("/proc/self/exe", argv[0], "child", NULL);
    return 1;
}
