// 120 000 blocks, 85 % freed at random: compaction halves what the process has, survivors are
// intact, and what follows works: reuse, more rounds without a leak, the end of everything.
// build: default the secure one shares no pages
// run: 64
// run: 96
// run: 256
// run: 512 768 1024 2048 4096
// env: TOFT_COMPACT=1
// timeout: 120
// libc: skip it has no compaction
#include "../compact.h"

enum { N = 120000, ROUNDS = 12 };
static void *block[N];
static size_t size[N];
static struct rng r = {11};

static void verify(void)
{
    for (uint64_t i = 0; i < N; i++)
        if (block[i])
            CHECK(is_marked(block[i], size[i], i));
}

NOINLINE void *make(size_t bytes)
{
    void *p = malloc(bytes);
    NO_TAIL_CALL();
    return p;
}

static void thin_out(void)
{
    for (int i = 0; i < N; i++)
        if (rng_below(&r, 100) < 85) {
            free(block[i]);
            block[i] = NULL;
        }
}

static void fill_up(void)
{
    for (uint64_t i = 0; i < N; i++)
        if (!block[i]) {
            CHECK(block[i] = make(size[i]));
            mark(block[i], size[i], i);
        }
}

static long pss(void)
{
    return kilobytes("/proc/self/smaps_rollup", "Pss:");
}

static long rss(void)
{
    return kilobytes("/proc/self/smaps_rollup", "Rss:");
}

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    for (int i = 0; i < N; i++) {
        size[i] = (size_t)atol(argv[1 + rng_below(&r, (size_t)argc - 1)]);
        block[i] = NULL;
    }
    CHECK(views() == 0);
    long start = pss(), start_rss = rss();
    fill_up();
    thin_out();
    long sparse = pss() - start, sparse_rss = rss() - start_rss;
    size_t saved = compact();
    purge_all();
    long after = pss() - start, after_rss = rss() - start_rss;
    announce_number("sparse", (size_t)sparse);
    announce_number("after", (size_t)after);
    announce_number("saved", saved >> 10);
    CHECK(saved != 0 && views() != 0);
    verify();
    announce_number("read", (size_t)(pss() - start));
    /* The pages of a program that has just read all of its blocks count once, by their shares. 64 and 96
     * byte blocks come as near to the half as pages can that have ten live blocks each. */
    long least = size[0] <= 96 && argc == 2 ? 60 : 50;
    CHECK(after * 100 <= sparse * least);
    CHECK(after_rss * 100 <= sparse_rss * least);
    CHECK((pss() - start) * 100 <= sparse * least);

    /* What survives can be written to, and what is free is used again. */
    for (uint64_t i = 0; i < N; i++)
        if (block[i])
            mark(block[i], size[i], i);
    verify();
    for (int k = 0; k < 300000; k++) {
        size_t i = rng_below(&r, N);
        if (block[i]) {
            CHECK(is_marked(block[i], size[i], i));
            free(block[i]);
            block[i] = NULL;
        } else if (rng_below(&r, 100) < 15) {
            /* calloc's memory is zero, wherever it lies. */
            unsigned char *p = calloc(1, size[i]);
            CHECK(p);
            for (size_t at = 0; at < size[i]; at++)
                CHECK(p[at] == 0);
            mark(p, size[i], i);
            block[i] = p;
        }
    }
    verify();

    /* Round after round, nothing is left behind. A single round may have more: the reclaimer sweeps
     * slabs at that moment, which then stay as they are. */
    long most = 0, least_late = LONG_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        fill_up();
        thin_out();
        /* Compacts, and gives back what is free besides. */
        purge_all();
        verify();
        long now = pss() - start;
        if (round == 2)
            most = now;
        if (round >= ROUNDS - 5 && now < least_late)
            least_late = now;
    }
    CHECK(least_late <= most + most / 4 + 512);
    for (int i = 0; i < N; i++)
        free(block[i]);
    compact();
    CHECK(views() == 0);
    CHECK(kilobytes("/proc/self/status", "RssShmem:") == 0);
    purge_all();
    announce_number("left", (size_t)(pss() - start));
    CHECK(pss() - start < 4096);
    return 0;
}
