// syscall and prctl do what the C library's do: six arguments, results up to 64 bits, errno on
// failure and only then, calls that return twice, cancellation left alone.
// flags: -pthread
#include "common.h"
#include <sys/prctl.h>
#include <sys/syscall.h>

static void of_syscall(void)
{
    errno = 5;
    CHECK(syscall(SYS_getpid) == getpid() && errno == 5);
    /* All six arguments count, the last on the stack: a page of this file at an offset. */
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    size_t page = page_size();
    long at = syscall(SYS_mmap, NULL, page, (long)PROT_READ, (long)MAP_PRIVATE, (long)fd, page);
    CHECK(at > 0 && (at & (long)(page - 1)) == 0);
    unsigned char second[16];
    CHECK(pread(fd, second, sizeof second, (off_t)page) == sizeof second);
    CHECK(memcmp((void *)at, second, sizeof second) == 0);
    CHECK(syscall(SYS_munmap, at, page) == 0);
    close(fd);
    CHECK(errno == 5);
    /* Failures. */
    CHECK(syscall(100000L) == -1 && errno == ENOSYS);
    CHECK(syscall(-1L) == -1 && errno == ENOSYS);
    CHECK(syscall(SYS_close, -1) == -1 && errno == EBADF);
    CHECK(syscall(SYS_read, 0, (void *)8, -1L) == -1 && errno != EBADF);
    CHECK(syscall(SYS_mmap, NULL, 0L, 0L, (long)(MAP_PRIVATE | MAP_ANONYMOUS), -1L, 0L) == -1);
    CHECK(errno == EINVAL);
    errno = 7;
    /* A result that is large and no error: what was asked of this mapping is far beyond 32 bits. */
    at = syscall(SYS_mmap, (void *)(1L << 40), page, (long)PROT_NONE,
                 (long)(MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE), -1L, 0L);
    CHECK(at == 1L << 40 && errno == 7);
    CHECK(munmap((void *)at, page) == 0);
    /* A child on the same stack as fork has it. */
    long pid = syscall(SYS_clone, (long)SIGCHLD, NULL, NULL, NULL, NULL);
    CHECK(pid >= 0);
    if (pid == 0)
        syscall(SYS_exit_group, 0);
    reap((pid_t)pid);
}

static void of_prctl(void)
{
    errno = 5;
    char name[16] = "";
    CHECK(prctl(PR_SET_NAME, "a name") == 0);
    CHECK(prctl(PR_GET_NAME, name) == 0 && strcmp(name, "a name") == 0 && errno == 5);
    int signal = -1;
    CHECK(prctl(PR_SET_PDEATHSIG, SIGUSR1) == 0 && prctl(PR_GET_PDEATHSIG, &signal) == 0);
    CHECK(signal == SIGUSR1);
    CHECK(prctl(PR_SET_PDEATHSIG, 0) == 0);
    /* The fifth argument counts: it has to be zero. */
    CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0L, 0L, 0L, 0L) >= 0 && errno == 5);
    CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0L, 0L, 0L, 1L) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(prctl(987654) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(prctl(PR_GET_NAME, (void *)8) == -1 && errno == EFAULT);
    /* Through the other one, too. */
    errno = 0;
    CHECK(syscall(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0L, 0L, 0L, 1L) == -1 && errno == EINVAL);
    errno = 5;
    CHECK(syscall(SYS_prctl, PR_GET_NAME, name) == 0 && errno == 5);
}

static void *thread(void *arg)
{
    /* errno is the thread's own. */
    errno = 3;
    CHECK(syscall(SYS_close, -1) == -1 && errno == EBADF);
    CHECK(prctl(987654) == -1 && errno == EINVAL);
    return arg;
}

int main(void)
{
    of_syscall();
    of_prctl();
    pthread_t t = spawn(thread, NULL);
    errno = 9;
    CHECK(pthread_join(t, NULL) == 0 && errno == 9);
    return 0;
}
