// Paging out and compaction in one process: what slabs share is not sent out, and neither stands in
// the other's way, before a fork or after it. Live data comes back as it was.
// build: default the secure one shares no pages
// flags: -pthread
// env: TOFT_COMPACT=1
// libc: skip it has neither
// stderr-any: it may say that there is no swap
// timeout: 120
// musl: skip replaces ioctl, which is declared otherwise there
#include "../compact.h"
#include "cold.h"

enum { N = 60000, SIZE = 256, FULL = 8000, FULL_SIZE = 1000, LARGE = 4 << 20 };
static unsigned char *block[N], *full[FULL], *large;
static size_t (*page_out)(void);

NOINLINE unsigned char *make(size_t bytes)
{
    unsigned char *p = malloc(bytes);
    NO_TAIL_CALL();
    return p;
}

static void check_all(void)
{
    for (int i = 0; i < N; i++)
        CHECK(!block[i] || filled(block[i], SIZE, (uint64_t)i));
    for (int i = 0; i < FULL; i++)
        CHECK(filled(full[i], FULL_SIZE, (uint64_t)i));
    CHECK(filled(large, LARGE, 3));
}

static void *sleeper(void *barrier)
{
    pthread_barrier_wait(barrier);
    return NULL;
}

int main(void)
{
    if (!can_stop_writers()) {
        fprintf(stderr, "skipped: writers cannot be stopped here\n");
        return 0;
    }
    page_out = (size_t(*)(void))symbol("toft_pageout_cold");
    CHECK(page_out);
    need_swap(128);
    if (!kernel_tells()) {
        fprintf(stderr, "skipped: this kernel does not tell of pages\n");
        return 0;
    }
    for (int i = 0; i < N; i++) {
        CHECK((block[i] = make(SIZE)));
        fill(block[i], SIZE, (uint64_t)i);
    }
    for (int i = 0; i < FULL; i++) {
        CHECK((full[i] = malloc(FULL_SIZE)));
        fill(full[i], FULL_SIZE, (uint64_t)i);
    }
    CHECK((large = malloc(LARGE)));
    fill(large, LARGE, 3);
    struct rng r = {5};
    for (int i = 0; i < N; i++)
        if (rng_below(&r, 100) < 85) {
            free(block[i]);
            block[i] = NULL;
        }
    /* A look comes first: its watch must not be in the way of those who share. */
    page_out();
    /* With a second thread writers must be stopped, for which the kernel has one watch for a range. */
    static pthread_barrier_t end;
    pthread_barrier_init(&end, NULL, 2);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, sleeper, &end) == 0);
    size_t saved = compact();
    /* On a loaded machine the library's own thread may be at it just then. */
    for (double last = now() + 10; saved == 0 && now() < last; usleep(20000))
        saved = compact();
    announce_number("saved", saved);
    CHECK(saved > 1 << 20 && views() != 0);
    size_t sum = 0;
    for (int look = 0; look < 4; look++)
        sum += page_out();
    announce_number("went", sum);
    size_t full_bytes = (size_t)FULL * FULL_SIZE + LARGE;
    CHECK(sum >= full_bytes / 100 * 90 && sum <= full_bytes / 100 * 125);
    CHECK(views() != 0);
    check_all();
    CHECK(page_out() <= sum);
    /* A fork makes all of it private, out or not. */
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        check_all();
        page_out();
        page_out();
        check_all();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    check_all();
    for (int round = 0; round < 3; round++) {
        compact();
        page_out();
        check_all();
        for (int i = round; i < N; i += 7)
            if (!block[i]) {
                CHECK((block[i] = make(SIZE)));
                fill(block[i], SIZE, (uint64_t)i);
            }
    }
    CHECK(views() != 0);
    check_all();
    pthread_barrier_wait(&end);
    pthread_join(thread, NULL);
    return 0;
}
