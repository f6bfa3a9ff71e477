// The reclaimer's thread compacts idle memory unasked, while every thread of the program is asleep.
// What becomes empty afterwards comes apart by itself.
// build: default the secure one shares no pages
// flags: -pthread
// env: TOFT_COMPACT=1
// env: TOFT_DECAY=20
// timeout: 120
// libc: skip it has no compaction
#include "../compact.h"

enum { N = 120000, SIZE = 200 };
static void *block[N];
static pthread_barrier_t filled_up, all_done;

static void *sleeper(void *arg)
{
    struct rng r = {17};
    for (uint64_t i = 0; i < N; i++) {
        CHECK(block[i] = malloc(SIZE));
        mark(block[i], SIZE, i);
    }
    for (int i = 0; i < N; i++)
        if (rng_below(&r, 100) < 85) {
            free(block[i]);
            block[i] = NULL;
        }
    pthread_barrier_wait(&filled_up);
    pthread_barrier_wait(&all_done);
    return arg;
}

static int wait_for(int (*is)(void))
{
    struct timespec pause = {0, 20000000};
    for (int i = 0; i < 15000; i++) {
        if (is())
            return 1;
        nanosleep(&pause, NULL);
    }
    return 0;
}

static long start, sparse;

static int is_half(void)
{
    return (kilobytes("/proc/self/smaps_rollup", "Pss:") - start) * 2 <= sparse;
}

static int is_apart(void)
{
    /* Frees alone wake no thread; a large block does. What the sleeper would hand out next stays
     * with it: of one slab. */
    free(launder(malloc(1 << 20)));
    return views() <= 16;
}

int main(void)
{
    if (!can_stop_writers()) {
        static const char text[] = "left out: no userfaultfd for this user\n";
        CHECK(write(1, text, sizeof text - 1) > 0);
        return 0;
    }
    CHECK(views() == 0);
    pthread_barrier_init(&filled_up, NULL, 2);
    pthread_barrier_init(&all_done, NULL, 2);
    start = kilobytes("/proc/self/smaps_rollup", "Pss:");
    pthread_t t = spawn(sleeper, NULL);
    pthread_barrier_wait(&filled_up);
    /* What it would stay at: not asked of the kernel, because the reclaimer may have begun already. */
    sparse = (long)N * SIZE / 1024;
    CHECK(wait_for(is_half));
    CHECK(views() != 0);
    for (uint64_t i = 0; i < N; i++)
        if (block[i]) {
            CHECK(is_marked(block[i], SIZE, i));
            mark(block[i], SIZE, i);
            CHECK(is_marked(block[i], SIZE, i));
            free(block[i]);
        }
    CHECK(wait_for(is_apart));
    pthread_barrier_wait(&all_done);
    join(t);
    return 0;
}
