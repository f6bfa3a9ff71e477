/* What the C and C++ test programs share. Nothing here allocates, so that a program's own
 * allocations are the only ones. */
#ifndef TOFT_TESTS_COMMON_H
#define TOFT_TESTS_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A program need not use all of them. */
#define HELPER __attribute__((unused)) static

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond))                                                                               \
            check_failed(__FILE__, __LINE__, #cond);                                               \
    } while (0)

#ifndef __GLIBC__
/* The library has them, and musl's headers do not. */
struct mallinfo2 {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo2 mallinfo2(void);
struct mallinfo {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo mallinfo(void);
void *pvalloc(size_t);
void cfree(void *);
#endif

#ifdef __cplusplus
extern "C"
#endif
size_t toft_purge(void) __attribute__((weak));

/* Returns all free memory to the OS. malloc_trim does so only if enough was freed. */
HELPER void purge_all(void)
{
    if (toft_purge)
        toft_purge();
    else
        malloc_trim(0);
}

/* musl has no names of errors. */
HELPER const char *error_name(int error)
{
#ifdef __GLIBC__
    const char *name = strerrorname_np(error);
    return name ? name : "?";
#else
    (void)error;
    return "?";
#endif
}

__attribute__((noreturn, noinline)) HELPER void check_failed(const char *file, int line,
                                                                     const char *what)
{
    char text[600];
    int error = errno;
    int n = snprintf(text, sizeof text, "%s:%d: CHECK(%s) failed, errno %d (%s)\n", file, line, what,
                     error, error_name(error));
    if (write(2, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1) < 0) {
    }
    _exit(1);
}

/* A misuse and the correct program of the same shape, in one file: compiled with -DTWIN, a file
 * does what CORRECT says and leaves out what MISUSE says, and must end well and in silence. */
#ifdef TWIN
#define MISUSE(...)
#define CORRECT(...) __VA_ARGS__
#define END 0
#else
#define MISUSE(...) __VA_ARGS__
#define CORRECT(...)
#define END 77 /* the misuse went through */
#endif

/* The compiler knows nothing about what comes out. */
HELPER inline void *launder(const volatile void *p)
{
    void *q = (void *)p;
    __asm__ volatile("" : "+r"(q)::"memory");
    return q;
}

HELPER inline size_t launder_size(size_t n)
{
    __asm__ volatile("" : "+r"(n));
    return n;
}

#define NOINLINE __attribute__((noinline, noclone, unused)) static
/* Keeps a call from becoming a jump, so that the return address is in the caller. */
#define NO_TAIL_CALL() __asm__ volatile("" ::: "memory")

/* Tells the harness the value of a name that it may use in an expected message. */
HELPER void announce(const char *name, const void *p)
{
    char text[100];
    int n = snprintf(text, sizeof text, "%s=%p\n", name, p);
    CHECK(write(1, text, (size_t)n) == n);
}

HELPER void announce_number(const char *name, size_t n)
{
    char text[100];
    int length = snprintf(text, sizeof text, "%s=%zu\n", name, n);
    CHECK(write(1, text, (size_t)length) == length);
}

HELPER void announce_word(const char *name, const char *word)
{
    char text[100];
    int length = snprintf(text, sizeof text, "%s=%s\n", name, word);
    CHECK(write(1, text, (size_t)length) == length);
}

/* A live block's address and size, for messages about it. */
HELPER void announce_block(void *p)
{
    announce("p", p);
    announce_number("size", malloc_usable_size(p));
}

/* A live block of as many bytes as the program's only argument says. */
HELPER void *announced_block(int argc, char **argv)
{
    CHECK(argc == 2);
    void *p = launder(malloc(strtoul(argv[1], NULL, 10)));
    CHECK(p);
    announce_block(p);
    return p;
}

/* Functions that the C library under the test may not have. */
typedef void (*free_sized_fn)(void *, size_t);
typedef void (*free_aligned_sized_fn)(void *, size_t, size_t);

HELPER void *symbol(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

HELPER int on_toft(void)
{
    return symbol("toft_version") != NULL;
}

/* xorshift64*: the same numbers in every run. */
struct rng {
    uint64_t state;
};

HELPER inline uint64_t rng_next(struct rng *r)
{
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * 0x2545F4914F6CDD1DULL;
}

HELPER inline size_t rng_below(struct rng *r, size_t n)
{
    return (size_t)(rng_next(r) >> 16) % n;
}

/* The whole of a small file of /proc, without stdio (which allocates). */
HELPER size_t slurp(const char *path, char *into, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    size_t n = 0;
    while (n + 1 < size) {
        ssize_t got = read(fd, into + n, size - 1 - n);
        CHECK(got >= 0);
        if (got == 0)
            break;
        n += (size_t)got;
    }
    close(fd);
    into[n] = 0;
    return n;
}

HELPER size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

HELPER size_t statm_field(int field)
{
    char text[256];
    slurp("/proc/self/statm", text, sizeof text);
    char *at = text;
    size_t value = 0;
    for (int i = 0; i <= field; i++)
        value = strtoul(at, &at, 10);
    return value * page_size();
}

/* What is resident is also an emulator's: there this is nothing, at any time. */
HELPER size_t rss_bytes(void)
{
#ifdef EMULATED
    return 0;
#endif
    return statm_field(1);
}

HELPER size_t vsz_bytes(void)
{
    return statm_field(0);
}

/* How many mappings the process has. */
HELPER size_t mapping_count(void)
{
    static char text[65536];
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    size_t lines = 0;
    ssize_t n;
    while ((n = read(fd, text, sizeof text)) > 0)
        for (ssize_t i = 0; i < n; i++)
            lines += text[i] == '\n';
    close(fd);
    return lines;
}

HELPER double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

HELPER pthread_t spawn(void *(*f)(void *), void *arg)
{
    pthread_t t;
    int rc = pthread_create(&t, NULL, f, arg);
    errno = rc;
    CHECK(rc == 0);
    return t;
}

HELPER void *join(pthread_t t)
{
    void *out;
    int rc = pthread_join(t, &out);
    errno = rc;
    CHECK(rc == 0);
    return out;
}

/* Waits for a child that must end with status 0. */
HELPER void reap(pid_t pid)
{
    int status;
    pid_t got;
    do
        got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    CHECK(got == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Starts the program again with a variable set, unless it is set: options are read at the start. */
HELPER void anew_with(char **argv, const char *name, const char *value)
{
    if (getenv(name))
        return;
    setenv(name, value, 1);
    execv("/proc/self/exe", argv);
    _exit(127);
}

/* Runs this program again with one argument and reads what it writes to standard output (fd 1) or
 * standard error (fd 2). Returns its wait status. */
HELPER int run_again(const char *arg, int fd, char *into, size_t size)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], fd);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", "again", arg, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t n = 0;
    for (;;) {
        ssize_t got = read(ends[0], into + n, size - 1 - n);
        CHECK(got >= 0);
        if (got == 0)
            break;
        n += (size_t)got;
        CHECK(n + 1 < size);
    }
    into[n] = 0;
    close(ends[0]);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

/* Runs `body` in a child whose standard error is collected. Returns its wait status. */
HELPER int in_child(void (*body)(void), char *into, size_t size)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        body();
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    ssize_t got;
    while ((got = read(ends[0], into + n, size - 1 - n)) > 0)
        n += (size_t)got;
    into[n] = 0;
    close(ends[0]);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

/* Content that tells which block it belongs to. */
HELPER void fill(void *p, size_t n, uint64_t tag)
{
    unsigned char *c = (unsigned char *)p;
    for (size_t i = 0; i < n; i++)
        c[i] = (unsigned char)(tag * 31 + i * 7 + (i >> 8));
}

HELPER int filled(const void *p, size_t n, uint64_t tag)
{
    const unsigned char *c = (const unsigned char *)p;
    for (size_t i = 0; i < n; i++)
        if (c[i] != (unsigned char)(tag * 31 + i * 7 + (i >> 8)))
            return 0;
    return 1;
}

#endif
