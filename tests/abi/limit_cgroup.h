/* A cgroup of the test's own making: files in a name space of mounts, where the library looks for
 * them. No kernel enforces what they say. */
#include "limit.h"
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

HELPER void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

HELPER void put_number(const char *path, size_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%zu\n", number);
    put(path, text);
}

/* Returns 0 if the system does not allow the process its own mounts. */
HELPER int make_cgroup(void)
{
    char maps[64];
    snprintf(maps, sizeof maps, "0 %u 1\n", (unsigned)getuid());
    if (unshare(CLONE_NEWNS) != 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
            return 0;
        put("/proc/self/uid_map", maps);
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/sys/fs/cgroup", "tmpfs", 0, NULL) != 0)
        return 0;
    CHECK(mkdir("/sys/fs/cgroup/a", 0755) == 0 && mkdir("/sys/fs/cgroup/a/b", 0755) == 0);
    put("/sys/fs/cgroup/self", "1:name=other:/x\n0::/a/b\n");
    char self[64];
    snprintf(self, sizeof self, "/proc/%d/cgroup", (int)getpid());
    return mount("/sys/fs/cgroup/self", self, NULL, MS_BIND, NULL) == 0;
}
