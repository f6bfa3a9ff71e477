// Live data that is not used goes out to swap, 94 % of it, what is used stays, and everything reads
// as before: small, medium and large blocks, from two threads, one of them asleep all the time.
// flags: -pthread
// libc: skip it has no such call
// stderr-any: it may say that there is no swap
// timeout: 240
#include "cold.h"

static size_t (*toft_pageout_cold)(void);

enum { SMALL = 60000, MEDIUM = 1500, LARGE = 6, LARGE_BYTES = 3 << 20 };

struct set {
    unsigned char *block[SMALL + MEDIUM + LARGE];
    size_t bytes;
};
static struct set cold, hot, sleeping;

static size_t size_of(int i)
{
    return i < SMALL ? 300 : i < SMALL + MEDIUM ? 20000 : LARGE_BYTES;
}

NOINLINE void make(struct set *set)
{
    for (int i = 0; i < SMALL + MEDIUM + LARGE; i++) {
        CHECK((set->block[i] = malloc(size_of(i))));
        fill(set->block[i], size_of(i), (uint64_t)i);
        set->bytes += size_of(i);
    }
}

/* The same from another place, so that the hot and the cold do not share slabs. */
NOINLINE void make_hot(struct set *set)
{
    for (int i = 0; i < SMALL + MEDIUM + LARGE; i++) {
        CHECK((set->block[i] = malloc(size_of(i))));
        fill(set->block[i], size_of(i), (uint64_t)i);
        set->bytes += size_of(i);
    }
}

static void use(struct set *set)
{
    for (int i = 0; i < SMALL + MEDIUM + LARGE; i++)
        for (size_t at = 0; at < size_of(i); at += 200)
            *(volatile unsigned char *)(set->block[i] + at) = set->block[i][at];
}

static size_t in_memory(struct set *set)
{
    size_t sum = 0;
    for (int i = SMALL; i < SMALL + MEDIUM + LARGE; i++)
        sum += resident(set->block[i], size_of(i));
    /* Of the small ones each page once, or nearly so. */
    for (int i = 0; i < SMALL; i += 13)
        sum += resident(set->block[i], 1);
    return sum;
}

static void check(struct set *set)
{
    for (int i = 0; i < SMALL + MEDIUM + LARGE; i++)
        CHECK(filled(set->block[i], size_of(i), (uint64_t)i));
}

static pthread_barrier_t made, done;

static void *sleeper(void *unused)
{
    make(&sleeping);
    pthread_barrier_wait(&made);
    pthread_barrier_wait(&done);
    return unused;
}

int main(void)
{
    toft_pageout_cold = (size_t(*)(void))symbol("toft_pageout_cold");
    CHECK(toft_pageout_cold);
    need_swap(256);
    if (!kernel_tells()) {
        fprintf(stderr, "skipped: this kernel does not tell of pages\n");
        return 0;
    }
    pthread_barrier_init(&made, NULL, 2);
    pthread_barrier_init(&done, NULL, 2);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, sleeper, NULL) == 0);
    make(&cold);
    make_hot(&hot);
    pthread_barrier_wait(&made);
    errno = 77;
    CHECK(toft_pageout_cold() == 0);
    CHECK(errno == 77);
    size_t cold_before = in_memory(&cold) + in_memory(&sleeping), rss = rss_bytes();
    use(&hot);
    size_t hot_before = in_memory(&hot);
    size_t went = toft_pageout_cold();
    size_t cold_after = in_memory(&cold) + in_memory(&sleeping), bytes = cold.bytes + sleeping.bytes;
    announce_number("cold", cold_before);
    announce_number("left", cold_after);
    announce_number("went", went);
    CHECK(cold_after <= cold_before / 100 * 6);
    CHECK(went >= bytes / 100 * 94 && went <= bytes + bytes / 8);
    CHECK(rss - rss_bytes() >= bytes / 100 * 90);
    CHECK(in_memory(&hot) == hot_before);

    /* The kernel's own writes count: read() into memory that nothing else has written to. */
    use(&hot);
    toft_pageout_cold();
    int fd = open("/dev/zero", O_RDONLY);
    unsigned char *last = hot.block[SMALL + MEDIUM + LARGE - 1];
    CHECK(read(fd, last, LARGE_BYTES) == LARGE_BYTES);
    toft_pageout_cold();
    CHECK(resident(last, LARGE_BYTES) == LARGE_BYTES);
    fill(last, LARGE_BYTES, SMALL + MEDIUM + LARGE - 1);

    check(&cold);
    check(&hot);
    /* What is out can be freed, grown and had again. */
    toft_pageout_cold();
    for (int i = 0; i < SMALL + MEDIUM + LARGE; i += 2) {
        free(cold.block[i]);
        hot.block[i] = realloc(hot.block[i], size_of(i) * 2);
        CHECK(hot.block[i]);
    }
    check(&hot);
    for (int i = 0; i < SMALL + MEDIUM + LARGE; i += 2) {
        cold.block[i] = calloc(1, size_of(i));
        for (size_t at = 0; at < size_of(i); at++)
            CHECK(cold.block[i][at] == 0);
    }
    /* A child has its own: it looks twice, and what goes is there. */
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        toft_pageout_cold();
        toft_pageout_cold();
        check(&hot);
        check(&sleeping);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    pthread_barrier_wait(&done);
    pthread_join(thread, NULL);
    check(&sleeping);
    return 0;
}
