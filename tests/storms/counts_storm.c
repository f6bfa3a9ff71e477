// Threads allocate at one call site, free their own blocks and each other's, end and begin and
// purge. With all of that toft_profile says exactly how many blocks that call site has ever had,
// and how many live; also in a child.
// flags: -pthread -O1
// env: TOFT_PARTITIONS=exact
// run: 2
// run: 6
// timeout: 120
// promise: 22
#include "common.h"

enum { ROUNDS = 60, BLOCKS = 300, MAILS = 256 };

static _Atomic unsigned long had, given;
static void *mail[MAILS];
static char text[8 << 20];

NOINLINE void *get(size_t size)
{
    void *block = malloc(size);
    NO_TAIL_CALL();
    had++;
    return block;
}

static void give(void *block)
{
    given += block != NULL;
    free(block);
}

static void *worker(void *arg)
{
    struct rng r = {(uint64_t)(uintptr_t)arg + 99};
    void *block[BLOCKS] = {0};
    for (size_t round = 0; round < 20; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            size_t k = rng_below(&r, BLOCKS);
            give(block[k]);
            size_t size = rng_below(&r, 40) ? 1 + rng_below(&r, 900) : 1 + rng_below(&r, 200000);
            CHECK((block[k] = get(size)));
            if (rng_below(&r, 3) == 0)
                block[k] = __atomic_exchange_n(&mail[rng_below(&r, MAILS)], block[k], __ATOMIC_ACQ_REL);
        }
        if (rng_below(&r, 4) == 0)
            purge_all();
    }
    for (size_t k = 0; k < BLOCKS; k++)
        give(block[k]);
    return arg;
}

static unsigned long field(const char *row, const char *name)
{
    const char *at = strstr(row, name);
    CHECK(at);
    return strtoul(at + strlen(name), NULL, 10);
}

/* What is said of the call site in `get`. */
static void compare(int (*profile)(int))
{
    FILE *file = tmpfile();
    CHECK(file && profile(fileno(file)) == 0);
    ssize_t n = pread(fileno(file), text, sizeof text - 1, 0);
    CHECK(n > 0 && n < (ssize_t)sizeof text - 1);
    text[n] = 0;
    fclose(file);
    /* Rows only. */
    char *sampled = strstr(text, "\"sampled\":");
    if (sampled)
        *sampled = 0;
    unsigned long allocations = 0, objects = 0;
    for (char *row = strstr(text, "{\"site\":\""); row; row = strstr(row + 1, "{\"site\":\"")) {
        if (strtoul(row + 9, NULL, 16) - (uintptr_t)get >= 200)
            continue;
        allocations += field(row, "\"allocations\":");
        objects += field(row, "\"objects\":");
    }
    if (allocations != had || objects != had - given)
        fprintf(stderr, "allocations %lu of %lu, live %lu of %lu\n", allocations, had, objects, had - given);
    CHECK(allocations == had && objects == had - given);
}

int main(int argc, char **argv)
{
    size_t count = argc > 1 ? (size_t)atoi(argv[1]) : 2;
    pthread_t thread[16];
    CHECK(count <= 16);
    int (*profile)(int) = (int (*)(int))dlsym(RTLD_DEFAULT, "toft_profile");
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < count; i++)
            CHECK(!pthread_create(&thread[i], NULL, worker, (void *)(round * 16 + i)));
        for (size_t i = 0; i < count; i++)
            CHECK(!pthread_join(thread[i], NULL));
        if (!profile)
            continue;
        compare(profile);
        if (round % 10)
            continue;
        pid_t child = fork();
        if (!child) {
            compare(profile);
            worker((void *)(round + 7));
            compare(profile);
            _exit(0);
        }
        int status;
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    return 0;
}
