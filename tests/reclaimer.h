/* The library's own thread, as others see it. */
#ifndef TOFT_TESTS_RECLAIMER_H
#define TOFT_TESTS_RECLAIMER_H

#include "common.h"
#include <dirent.h>

/* Its number; zero where this process has none. */
HELPER int reclaimer(void)
{
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        ssize_t n = read(fd, name, sizeof name - 1);
        close(fd);
        if (n > 0 && !strcmp(name, "toft-reclaimer\n"))
            found = atoi(task->d_name);
    }
    closedir(tasks);
    return found;
}

HELPER int has_reclaimer(void)
{
    return reclaimer() != 0;
}

/* The same, when it has had time to come, or has not come. */
HELPER int comes_a_reclaimer(double seconds)
{
    double end = now() + seconds;
    while (!has_reclaimer()) {
        if (now() > end)
            return 0;
        usleep(1000);
    }
    return 1;
}

/* The number of mappings of a process that look like the thread's stack with the guard below. */
HELPER int stacks(pid_t pid)
{
    char path[100], line[400], rights[8];
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "r");
    CHECK(maps);
    unsigned long start, end, guard_end = 0;
    int found = 0;
    while (fgets(line, sizeof line, maps)) {
        CHECK(sscanf(line, "%lx-%lx %7s", &start, &end, rights) == 3);
        found += start == guard_end && end - start == 64 << 10 && !strcmp(rights, "rw-p");
        guard_end = end - start == 64 << 10 && !strcmp(rights, "---p") ? end : 0;
    }
    fclose(maps);
    return found;
}

#endif
