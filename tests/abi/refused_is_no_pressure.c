// A request that no system could meet, or that RLIMIT_AS or TOFT_LIMIT refuses, does not slow
// later calls. Pairs of malloc and free that empty what they fill make no system call. Under real
// pressure memory is given back at once, and once requests succeed again the pairs make no system
// call either.
// stderr-any: the first refusal of a limit is reported
// libc: skip glibc trims and maps as it likes
// promise: 26 27
// run: impossible
// run: unlimited
// run: limited
// run: short
// timeout: 300
#include "filter.h"

static const size_t sizes[] = {100, 5000, 30000, 60000, 100000};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void pairs(int times)
{
    for (int i = 0; i < times; i++)
        for (int k = 0; k < SIZES; k++) {
            char *p = malloc(sizes[k]);
            CHECK(p);
            p[0] = 1;
            free(launder(p));
        }
}

/* Fewer pairs than it takes to end pressure, and enough to have what a limit has made go. */
enum { FEW = 2 };

/* The secure build may still give back the pages of a slab that was in use before: then `discards` may come. */
static void pairs_without_calls(int discards)
{
    struct sock_filter rules[] = {
        LOAD_NUMBER,        KILL(SYS_mmap),     KILL(SYS_munmap),          KILL(SYS_mremap),
        KILL(discards ? SYS_munmap : SYS_madvise),  KILL(SYS_mprotect), KILL(SYS_process_madvise), KILL(SYS_futex),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    INSTALL(rules);
    pairs(1000);
}

static void refused(size_t size)
{
    for (int i = 0; i < 3; i++) {
        errno = 0;
        CHECK(!launder(malloc(launder_size(size))) && errno == ENOMEM);
        errno = 0;
        CHECK(!launder(calloc(1, launder_size(size))) && errno == ENOMEM);
        void *p = malloc(100);
        errno = 0;
        CHECK(!realloc(launder(p), launder_size(size)) && errno == ENOMEM);
        free(launder(p));
        errno = 0;
        CHECK(!launder(aligned_alloc(4096, launder_size(size))) && errno == ENOMEM);
    }
}

static void limit_space(size_t more)
{
    size_t soft = vsz_bytes() + more;
    struct rlimit as;
    CHECK(getrlimit(RLIMIT_AS, &as) == 0);
    as.rlim_cur = soft;
    CHECK(setrlimit(RLIMIT_AS, &as) == 0);
}

static void unlimit_space(void)
{
    struct rlimit as;
    CHECK(getrlimit(RLIMIT_AS, &as) == 0);
    as.rlim_cur = as.rlim_max;
    CHECK(setrlimit(RLIMIT_AS, &as) == 0);
}

struct node {
    struct node *next;
};

static void run_short(void)
{
    limit_space(96 << 20);
    for (int round = 0; round < 2; round++) {
        struct node *list = NULL, *node;
        while ((node = malloc(30000))) {
            node->next = list;
            list = node;
        }
        CHECK(errno == ENOMEM);
        size_t full = vsz_bytes();
        while ((node = list)) {
            list = node->next;
            free(node);
        }
        /* All of it that this thread has; the secure build keeps a quarantine. */
        CHECK(vsz_bytes() < full - (64 << 20));
    }
    unlimit_space();
    pairs(3000);
    pairs_without_calls(1);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    pairs(3000);
    switch (argv[1][0]) {
    case 'i':
        refused((size_t)1 << 44);
        refused((size_t)1 << 45);
        refused((size_t)1 << 62);
        refused(PTRDIFF_MAX);
        refused(SIZE_MAX - 100000);
        break;
    case 'u':
        limit_space(256 << 20);
        refused((size_t)1 << 30);
        refused((size_t)1 << 44);
        break;
    case 'l':
        anew_with(argv, "TOFT_LIMIT", "64m");
        refused(65 << 20);
        refused((size_t)1 << 44);
        break;
    case 's':
        run_short();
        return 0;
    }
    pairs(FEW);
    pairs_without_calls(0);
    return 0;
}
