/* What the tests of compaction share. */
#ifndef TOFT_TESTS_COMPACT_H
#define TOFT_TESTS_COMPACT_H

#include "common.h"
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

typedef size_t (*compact_fn)(void);

HELPER size_t compact(void)
{
    compact_fn f;
    *(void **)&f = symbol("toft_compact");
    CHECK(f);
    return f();
}

/* Kilobytes after a name in a file of /proc/self, or -1. */
HELPER long kilobytes(const char *path, const char *name)
{
    static char text[1 << 14];
    slurp(path, text, sizeof text);
    for (char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, strlen(name)) == 0)
            return atol(line + strlen(name));
    }
    return -1;
}

/* Mappings of our memory files. */
HELPER int views(void)
{
    static char text[1 << 22];
    slurp("/proc/self/maps", text, sizeof text);
    int n = 0;
    for (char *at = text; (at = strstr(at, "/memfd:toft")); at++)
        n++;
    return n;
}

/* Whether this system lets a process with threads stop their writes. */
HELPER int can_stop_writers(void)
{
    long fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    struct uffdio_api api = {.api = UFFD_API, .features = 1 | 1 << 12};
    int can = ioctl((int)fd, UFFDIO_API, &api) == 0;
    close((int)fd);
    return can;
}

/* Every word of a block says which block it is. */
HELPER void mark(void *block, size_t bytes, uint64_t number)
{
    uint64_t *word = block;
    for (size_t i = 0; i < bytes / 8; i++)
        word[i] = number * 0x9E3779B97F4A7C15ULL + i;
}

HELPER int is_marked(const void *block, size_t bytes, uint64_t number)
{
    const uint64_t *word = block;
    for (size_t i = 0; i < bytes / 8; i++)
        if (word[i] != number * 0x9E3779B97F4A7C15ULL + i)
            return 0;
    return 1;
}

#endif
