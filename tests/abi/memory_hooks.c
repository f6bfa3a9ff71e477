// Memory hooks of libraries for MPI and RDMA see each range whose pages go, in a thread that libc
// knows, and may allocate and free meanwhile. Without hooks pages go unseen, which shows that the
// test can fail.
// flags: -pthread
// libs: -ldl
// libc: skip its malloc calls these functions within the library, past the loader's tables
// musl: skip static programs have no tables of the loader
// aarch64: skip it patches code of x86-64, and qemu has no pagemap
// timeout: 120
// case: memory_hooks
// run: code
// run: table
// run: none
// case: memory_hooks_late
// run: code late
// run: table late
// case: memory_hooks_thread
// build: default,secure in the full build the thread verifies the heap before it sleeps again
// run: code late ends
// case: memory_hooks_defined -rdynamic -DDEFINED
// run: defined
// case: memory_hooks_pkey
// env: TOFT_PKEY=1
// build: secure the other build has no key
// machine: pkeys a hook must not find the tables open
// run: code
// case: memory_hooks_guarded
// env: TOFT_GUARDED=1
// run: code
// case: memory_hooks_calls
// env: TOFT_RECLAIM=calls
// run: code
// run: table
// case: memory_hooks_limit
// env: TOFT_LIMIT=96m
// stderr-any: the limit refuses some blocks
// run: code
// run: table
// case: memory_hooks_compact
// env: TOFT_COMPACT=1
// build: default the secure builds do not compact
// run: code
// run: code late
#include "../reclaimer.h"
#include "../hooks.h"

enum { BLOCKS = 48, THREADS = 4 };

struct churn {
    char *block[BLOCKS];
    size_t size[BLOCKS];
    unsigned random;
};

static unsigned next(struct churn *churn)
{
    churn->random = churn->random * 1664525 + 1013904223;
    return churn->random >> 8;
}

static size_t some_size(struct churn *churn)
{
    switch (next(churn) % 5) {
    case 0: return 64 + next(churn) % 4000;
    case 1: return (next(churn) % 30 + 2) << 12;
    case 2: return (next(churn) % 64 + 33) << 12;
    case 3: return (size_t)(next(churn) % 20 + 1) << 16;
    default: return (size_t)(next(churn) % 4 + 1) << 20;
    }
}

static void write_block(char *block, size_t size)
{
    memset(block, 3, size);
    register_block(block, size);
}

/* Replaces, grows and shrinks blocks. What remains is freed. */
static void run(unsigned seed, int steps, int scans)
{
    struct churn churn = {.random = seed};
    for (int step = 0; step < steps; step++) {
        unsigned k = next(&churn) % BLOCKS;
        errno = 77;
        free(churn.block[k]);
        CHECK(errno == 77);
        if (scans)
            find_stale();
        size_t size = churn.size[k] = some_size(&churn);
        char *block = churn.block[k] = malloc(size);
        if (!block) {
            CHECK(errno == ENOMEM && getenv("TOFT_LIMIT"));
            continue;
        }
        write_block(block, size);
        if (step % 3 == 0) {
            size_t other = step % 2 ? size / 2 + 1 : size + (next(&churn) % 8 << 18);
            char *moved = realloc(block, other);
            if (moved) {
                CHECK(moved[0] == 3 && moved[(other < size ? other : size) - 1] == 3);
                churn.block[k] = moved;
                churn.size[k] = other;
                if (scans)
                    find_stale();
                write_block(moved, other);
            }
        }
        if (step % 100 == 99) {
            purge_all();
            find_stale();
        }
        if (scans)
            find_stale();
    }
    for (int k = 0; k < BLOCKS; k++)
        free(churn.block[k]);
    purge_all();
    find_stale();
}

/* Small blocks that fill whole slabs, most of which are freed. */
static void small_blocks(void)
{
    enum { N = 20000, SIZE = 800 };
    static char *block[N];
    for (int i = 0; i < N; i++) {
        CHECK((block[i] = malloc(SIZE)));
        memset(block[i], 4, SIZE);
        if (i % 150 == 0)
            register_block(block[i], SIZE);
    }
    for (int i = 0; i < N; i++)
        if (i % 1000)
            free(block[i]);
    purge_all();
    find_stale();
    for (int i = 0; i < N; i += 1000)
        free(block[i]);
    purge_all();
    find_stale();
}

static void *thread(void *number)
{
    run((unsigned)(uintptr_t)number, 150, 0);
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    const char *how = argv[1];
    int hooked = strcmp(how, "none") != 0;
    int late = argc > 2, ends = argc > 3;
    if (late) {
        /* The library's thread is there before the hooks, and has memory to return. */
        char *block[64];
        for (int i = 0; i < 64; i++) {
            CHECK((block[i] = malloc(1 << 20)));
            memset(block[i], 1, 1 << 20);
        }
        for (int i = 0; i < 64; i++)
            free(block[i]);
        ends = comes_a_reclaimer(1) && ends;
    }
    install_hooks(how);
    run(1, 500, 1);
    small_blocks();
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, thread, (void *)(i + 2)) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    find_stale();
    /* It leaves the return of memory to the program. In the full build it may find the hooks only
     * when it is to verify the next share of the heap. */
    while (ends && has_reclaimer())
        usleep(1000);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        begin_child();
        run(9, 100, 1);
        _exit((stale != 0) == hooked || foreign != 0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    fprintf(stdout, "%ld events, %ld of them in hooks, %ld registrations, %ld stale, %ld foreign\n",
            events, nested, registered, stale, foreign);
    CHECK(foreign == 0);
    CHECK(hooked ? stale == 0 && events > 100 : stale > 10 && events == 0);
    return 0;
}
