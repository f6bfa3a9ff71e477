/* What the kernel says of each thread of a process, those included that the C library does not
 * know. */
#ifndef TOFT_TESTS_TASKS_H
#define TOFT_TESTS_TASKS_H

#include "reclaimer.h"

struct ids {
    unsigned uid[3], gid[3];
    char groups[200];
};

/* Reads the text that follows a name at the begin of a line. */
HELPER const char *line_of(const char *text, const char *name)
{
    for (const char *at = text; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (!strncmp(at, name, strlen(name)))
            return at + strlen(name);
    return NULL;
}

/* Calls a function with the number and the record of each thread. Returns the number of threads. */
HELPER int each_task(pid_t pid, void (*each)(int number, const char *status, void *), void *argument)
{
    char path[100];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    CHECK(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        static char text[4096];
        char file[400];
        snprintf(file, sizeof file, "%s/%s/status", path, task->d_name);
        int fd = task->d_name[0] == '.' ? -1 : open(file, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue; /* it has ended meanwhile */
        ssize_t n = read(fd, text, sizeof text - 1);
        close(fd);
        if (n <= 0)
            continue;
        text[n] = 0;
        count++;
        if (each)
            each(atoi(task->d_name), text, argument);
    }
    closedir(tasks);
    return count;
}

HELPER struct ids ids_of(const char *status)
{
    struct ids ids = {.groups = ""};
    const char *uid = line_of(status, "Uid:"), *gid = line_of(status, "Gid:");
    const char *groups = line_of(status, "Groups:");
    CHECK(uid && sscanf(uid, "%u %u %u", ids.uid, ids.uid + 1, ids.uid + 2) == 3);
    CHECK(gid && sscanf(gid, "%u %u %u", ids.gid, ids.gid + 1, ids.gid + 2) == 3);
    CHECK(groups && sscanf(groups, "%199[^\n]", ids.groups) <= 1);
    return ids;
}

struct others {
    struct ids wanted;
    int count;
};

HELPER void compare(int number, const char *status, void *argument)
{
    struct others *others = argument;
    struct ids found = ids_of(status);
    (void)number;
    others->count += memcmp(found.uid, others->wanted.uid, sizeof found.uid) ||
                     memcmp(found.gid, others->wanted.gid, sizeof found.gid) ||
                     strcmp(found.groups, others->wanted.groups);
}

/* The number of threads with other users or groups than the calling one. */
HELPER int with_other_ids(void)
{
    static char text[4096];
    int fd = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    CHECK(n > 0);
    text[n] = 0;
    struct others others = {ids_of(text), 0};
    each_task(getpid(), compare, &others);
    return others.count;
}

/* Allocates and frees until the library's thread is there. */
HELPER void grow_until_reclaimer(void)
{
    enum { COUNT = 16000 };
    static char *block[COUNT];
    double end = now() + 300;
    do {
        CHECK(now() < end); /* waits for a reclaimer */
        for (int i = 0; i < COUNT; i++) {
            CHECK((block[i] = launder(malloc(2000))));
            block[i][0] = 1;
        }
        for (int i = 0; i < COUNT; i++)
            free(block[i]);
    } while (!has_reclaimer());
}

#endif
