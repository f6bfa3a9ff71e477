/* What the tests of paging out share: swap for the time of a test, and which pages are in memory. */
#ifndef TOFT_TESTS_COLD_H
#define TOFT_TESTS_COLD_H

#include "../common.h"
#include <sys/file.h>
#include <sys/swap.h>
#include <sys/sysinfo.h>

static char swap_file[256];

static void swap_off(void)
{
    if (swap_file[0]) {
        swapoff(swap_file);
        unlink(swap_file);
    }
}

/* Swap of so many MiB in a file of our own; no where that is not allowed. */
static int swap_on_file(const char *folder, size_t mib)
{
    snprintf(swap_file, sizeof swap_file, "%s/toft-test-swap-%d", folder, (int)getpid());
    int fd = open(swap_file, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0) {
        swap_file[0] = 0;
        return 0;
    }
    /* What mkswap writes: version 1, the last page, and the mark at the end of the first page. */
    size_t page = page_size();
    static char zero[1 << 20];
    static uint32_t header[1024];
    int done = 1;
    for (size_t i = 0; i < mib && done; i++)
        done = write(fd, zero, sizeof zero) == (ssize_t)sizeof zero;
    header[256] = 1;
    header[257] = (uint32_t)((mib << 20) / page - 1);
    memcpy((char *)header + 4096 - 10, "SWAPSPACE2", 10);
    done = done && page == 4096 && pwrite(fd, header, page, 0) == (ssize_t)page && fsync(fd) == 0;
    close(fd);
    if (!done || swapon(swap_file, 0) != 0) {
        unlink(swap_file);
        swap_file[0] = 0;
        return 0;
    }
    return 1;
}

/* Swap belongs to the whole machine: one test would count on the swap of another, which takes it away. So tests that
 * need swap take turns. Held until this process and all children that it forks after this have exited. */
static void lock_swap(void)
{
    /* With fs.protected_regular, O_CREAT fails for another user's file. */
    const char *lock = "/tmp/toft-test-swap.lock";
    int fd = open(lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        fd = open(lock, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    CHECK(fd >= 0);
    while (flock(fd, LOCK_EX) != 0)
        CHECK(errno == EINTR);
}

/* Makes sure of so much swap; ends the test well, and says so, where there is none to be had. A helper
 * process takes it away again, however the test ends. */
static void need_swap(size_t mib)
{
    /* The helper inherits the lock, and holds it until the swap is off. */
    lock_swap();
    struct sysinfo info;
    if (sysinfo(&info) == 0 && info.freeswap * info.mem_unit >= mib << 20)
        return;
    int pipes[2];
    CHECK(pipe2(pipes, O_CLOEXEC) == 0);
    char made = 0;
    int told[2];
    CHECK(pipe2(told, O_CLOEXEC) == 0);
    pid_t helper = fork();
    CHECK(helper >= 0);
    if (helper == 0) {
        setsid();
        close(pipes[1]);
        made = swap_on_file("/var/tmp", mib) || swap_on_file("/tmp", mib);
        if (write(told[1], &made, 1) == 1 && made)
            while (read(pipes[0], &made, 1) > 0)
                ;
        swap_off();
        _exit(0);
    }
    close(pipes[0]);
    CHECK(read(told[0], &made, 1) == 1);
    if (made)
        return;
    fprintf(stderr, "skipped: there is no swap, and none can be made\n");
    exit(0);
}

/* Bytes of a range that are in memory. */
HELPER size_t resident(const void *start, size_t bytes)
{
    static int fd = -1;
    if (fd < 0)
        CHECK((fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) >= 0);
    size_t page = page_size(), sum = 0;
    for (uintptr_t at = (uintptr_t)start & ~(page - 1); at < (uintptr_t)start + bytes; at += page) {
        uint64_t entry;
        CHECK(pread(fd, &entry, 8, (off_t)(at / page * 8)) == 8);
        sum += entry >> 63 ? page : 0;
    }
    return sum;
}

/* Whether the kernel tells of pages: before Linux 6.7 nothing goes out. */
HELPER int kernel_tells(void)
{
    struct {
        uint64_t size, flags, start, end, walk_end, vec, vec_len, max, inverted, mask, any, ret;
    } argument = {.size = 96, .mask = 8, .ret = 8};
    static uint64_t regions[3];
    static char page[1 << 14];
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    argument.start = ((uintptr_t)page + 4095) & ~4095ul;
    argument.end = argument.start + 4096;
    argument.vec = (uintptr_t)regions;
    argument.vec_len = 1;
    extern int ioctl(int, unsigned long, ...);
    int tells = ioctl(fd, 0xC0606610ul, &argument) >= 0;
    close(fd);
    return tells;
}

#endif
