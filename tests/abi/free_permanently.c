// toft_free_permanently: what was in the block is gone, and its pages are returned to the OS. Its
// address is never handed out again, at that site and size, by this thread and one that takes over
// its slabs, in the child of a fork. It is counted.
// flags: -pthread
// run: 64
// run: 5000
// run: 300000
// timeout: 120
// libc: skip it has no such function
#include "common.h"

enum { GONE = 40, TRIES = 1000000 };

static void (*free_permanently)(void *);
static char *gone[GONE];
static size_t size;

NOINLINE char *make(void)
{
    char *p = launder(malloc(size));
    NO_TAIL_CALL();
    return p;
}

static int is_gone(const char *p)
{
    for (int i = 0; i < GONE; i++)
        if (p == gone[i])
            return 1;
    return 0;
}

static void try(int tries)
{
    char *kept[64] = {0};
    for (int i = 0; i < tries; i++) {
        char *p = make();
        CHECK(p && !is_gone(p));
        free(kept[i % 64]);
        kept[i % 64] = p;
    }
    for (int i = 0; i < 64; i++)
        free(kept[i]);
}

static void *owner(void *arg)
{
    char *between[GONE];
    for (int i = 0; i < GONE; i++) {
        CHECK((gone[i] = make()) && (between[i] = make()));
        memset(gone[i], 0x77, size);
        memset(between[i], 0x11, size);
    }
    for (int i = 0; i < GONE; i += 2)
        free_permanently(gone[i]);
    for (int i = 0; i < GONE; i++)
        free(between[i]);
    try(1000);
    return arg;
}

static void *successor(void *arg)
{
    try(TRIES / (size > 100000 ? 10 : 1));
    return arg;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size = strtoul(argv[1], NULL, 10);
    free_permanently = (void (*)(void *))symbol("toft_free_permanently");
    int (*verify)(void) = (int (*)(void))symbol("toft_verify");
    CHECK(free_permanently && verify);
    free_permanently(NULL);
    join(spawn(owner, NULL));
    /* Another thread's. */
    int error = errno = 7;
    for (int i = 1; i < GONE; i += 2)
        free_permanently(gone[i]);
    CHECK(errno == error);
    if (size < 100000)
        for (int i = 0; i < GONE; i++)
            for (size_t k = 0; k < size; k++)
                CHECK(((volatile char *)gone[i])[k] == 0);
    CHECK(verify() == 0);
    join(spawn(successor, NULL));
    purge_all();
    try(1000);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        try(100000);
        CHECK(verify() == 0);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(verify() == 0);
    int ends[2];
    CHECK(pipe(ends) == 0);
    int (*stats)(int) = (int (*)(int))symbol("toft_stats_json");
    static char text[65536];
    CHECK(stats(ends[1]) == 0);
    ssize_t n = read(ends[0], text, sizeof text - 1);
    CHECK(n > 0 && strstr(text, "\"permanently_freed_blocks\":40,"));
    return 0;
}
