// What a call site has freed cannot be had by another call site, nor by itself at another size, in
// ten million attempts each: while half of it lives, when all is freed, and after a trim. None in
// 10^7 means a chance below 3 in 10^7, with 95 % confidence. Which sites share the partition by
// chance is asked of the library itself, so nothing is allowed for.
// run: 64
// run: 1000
// timeout: 120
// libc: skip glibc gives anything to anyone
// promise: 15
// case: never_another_owner -DHASHED=1
// env: TOFT_PARTITIONS=64
// build: default the secure builds keep all sites apart
// case: never_another_owner_secure -DHASHED=0
// build: secure each site has its own partition there
#include "sites.h"

enum { N = 20000, ATTEMPTS = 10000000, HELD = 20000 };
static uintptr_t first[N];
static size_t size;
static int asked;

static int by_address(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

/* Whether [p, p + n) lies over a block that the first site had. */
static int was_first(uintptr_t p, size_t n)
{
    size_t low = 0, high = N;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (first[middle] + size <= p)
            low = middle + 1;
        else
            high = middle;
    }
    return low < N && first[low] < p + n;
}

static void free_twice(void)
{
    void *p = launder(site[asked](size));
    free(p);
    free(launder(p));
}

static int partition_of(int n)
{
    static char text[4096];
    asked = n;
    int status = in_child(free_twice, text, sizeof text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    char *at = strstr(text, "partition ");
    CHECK(at);
    return atoi(at + 10);
}

/* Attempts by the sites at `who`, of the sizes at `sizes`; the same numbers in every run. */
static void attempts(int n, const int *who, const int *sites, const size_t *sizes, int kinds)
{
    static void *held[HELD];
    struct rng r = {7};
    for (int i = 0; i < n; i++) {
        size_t k = rng_below(&r, HELD), want = sizes[rng_below(&r, (size_t)kinds)];
        free(held[k]);
        held[k] = site[who[rng_below(&r, (size_t)*sites)]](want);
        CHECK(!was_first((uintptr_t)held[k], want));
    }
    for (int k = 0; k < HELD; k++) {
        free(held[k]);
        held[k] = NULL;
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size = strtoul(argv[1], NULL, 10);
    int others[SITES], count = 0, own = 0, one = 1;
    /* Where each site has a separate partition, it has it from its first call on. */
    for (int i = 0; i < SITES; i++)
        free(site[i](size));
    int partition = partition_of(0);
    for (int i = 1; i < SITES; i++)
        if (partition_of(i) != partition)
            others[count++] = i;
    /* Eight that share by chance come once in 10^11 runs. */
    CHECK(count >= 8);
    const size_t others_sizes[] = {16, 200, 500, 2000, 5000};
    for (int i = 0; i < N; i++)
        first[i] = (uintptr_t)site[0](size);
    qsort(first, N, sizeof first[0], by_address);
    for (int phase = 0; phase < 3; phase++) {
        for (int i = 0; i < N; i++)
            if (phase == 0 ? i % 2 : phase == 1 && i % 2 == 0)
                free((void *)first[i]);
        if (phase == 2)
            purge_all();
        attempts(ATTEMPTS / 3 + 1, others, &count, &size, 1);
        attempts(ATTEMPTS / 3 + 1, &own, &one, others_sizes, 5);
    }
    /* The site itself gets them back: what is looked for would be seen. */
    int back = 0;
    for (int i = 0; i < N; i++)
        back += was_first((uintptr_t)site[0](size), size);
    CHECK(back > N / 2);
    return 0;
}
