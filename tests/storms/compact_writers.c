// While threads write to their blocks, have the kernel read files into them, free and allocate,
// others compact all the time and fork: no write is lost, and each child sees what there was, and
// its parent nothing of it.
// build: default the secure one shares no pages
// flags: -pthread
// env: TOFT_COMPACT=1
// timeout: 120
// libc: skip it has no compaction
// promise: 23
#include "../compact.h"

#ifndef SECONDS
#define SECONDS 5
#endif

enum { THREADS = 3, N = 4000, FREED = 85 };
static const size_t sizes[] = {64, 112, 256, 768, 1024, 2000};
enum { SIZES = sizeof sizes / sizeof *sizes };

struct own {
    uint64_t *block[N];
    uint64_t count[N];
    pthread_t thread;
};
static struct own all[THREADS];
static volatile int stop;
static size_t saved;
static int source;

static size_t size_of(size_t i)
{
    return sizes[i % SIZES];
}

NOINLINE uint64_t *make(size_t bytes)
{
    uint64_t *p = malloc(bytes);
    NO_TAIL_CALL();
    return p;
}

/* First and last word count the writes; the second is written by the kernel. */
static void begin(struct own *own, size_t i)
{
    size_t last = size_of(i) / 8 - 1;
    own->block[i] = make(size_of(i));
    CHECK(own->block[i]);
    own->block[i][0] = own->block[i][last] = own->count[i] = i;
    own->block[i][1] = 0;
}

static void write_once(struct own *own, size_t i, struct rng *r)
{
    uint64_t *p = own->block[i];
    size_t last = size_of(i) / 8 - 1;
    CHECK(p[0] == own->count[i] && p[last] == own->count[i]);
    own->count[i]++;
    __atomic_fetch_add(&p[0], 1, __ATOMIC_RELAXED);
    p[last] = own->count[i];
    if (rng_below(r, 50) == 0) {
        uint64_t place = rng_below(r, 1000);
        CHECK(pread(source, &p[1], 8, (off_t)(8 * place)) == 8);
        CHECK(p[1] == place * place + 7);
    }
}

static void *writer(void *arg)
{
    struct own *own = arg;
    struct rng r = {(uint64_t)(own - all) + 3};
    while (!stop) {
        for (size_t i = 0; i < N; i++)
            if (!own->block[i])
                begin(own, i);
        for (size_t i = 0; i < N; i++)
            if (rng_below(&r, 100) < FREED) {
                free(own->block[i]);
                own->block[i] = NULL;
            }
        for (int round = 0; round < 60 && !stop; round++) {
            for (size_t i = 0; i < N; i++)
                if (own->block[i])
                    write_once(own, i, &r);
            size_t i = rng_below(&r, N);
            free(own->block[i]);
            own->block[i] = NULL;
            begin(own, rng_below(&r, 2) ? i : i);
        }
    }
    return NULL;
}

static void *compactor(void *arg)
{
    (void)arg;
    while (!stop) {
        __atomic_fetch_add(&saved, compact(), __ATOMIC_RELAXED);
        struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* A thread that forks has its own blocks, which no other thread writes to. */
static void forks(void)
{
    static uint64_t *mine[N];
    struct rng r = {99};
    for (uint64_t i = 0; i < N; i++) {
        CHECK(mine[i] = make(size_of(i)));
        mark(mine[i], size_of(i), i);
    }
    for (uint64_t i = 0; i < N; i++)
        if (rng_below(&r, 100) < FREED) {
            free(mine[i]);
            mine[i] = NULL;
        }
    double end = now() + SECONDS;
    int children = 0;
    while (now() < end || children < 5) {
        struct timespec pause = {0, 30000000};
        nanosleep(&pause, NULL);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            CHECK(views() == 0);
            for (uint64_t i = 0; i < N; i++)
                if (mine[i]) {
                    CHECK(is_marked(mine[i], size_of(i), i));
                    memset(mine[i], 0, size_of(i));
                    free(mine[i]);
                    mine[i] = NULL;
                }
            for (int i = 0; i < 1000; i++)
                memset(make(size_of((size_t)i)), 1, size_of((size_t)i));
            _exit(0);
        }
        /* The parent goes on at once: the child must not see that. */
        for (uint64_t i = 0; i < N; i++)
            if (mine[i]) {
                mark(mine[i], size_of(i), i + 1);
                mark(mine[i], size_of(i), i);
            }
        reap(pid);
        for (uint64_t i = 0; i < N; i++)
            if (mine[i])
                CHECK(is_marked(mine[i], size_of(i), i));
        children++;
    }
    for (int i = 0; i < N; i++)
        free(mine[i]);
    announce_number("children", (size_t)children);
}

int main(void)
{
    if (!can_stop_writers()) {
        static const char text[] = "left out: no userfaultfd for this user\n";
        CHECK(write(1, text, sizeof text - 1) > 0);
        return 0;
    }
    source = memfd_create("numbers", MFD_CLOEXEC);
    CHECK(source >= 0);
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t value = i * i + 7;
        CHECK(pwrite(source, &value, 8, (off_t)(8 * i)) == 8);
    }
    for (int t = 0; t < THREADS; t++)
        all[t].thread = spawn(writer, &all[t]);
    pthread_t other = spawn(compactor, NULL);
    forks();
    stop = 1;
    join(other);
    for (int t = 0; t < THREADS; t++)
        join(all[t].thread);
    announce_number("saved", saved >> 10);
    CHECK(saved != 0);
    for (int t = 0; t < THREADS; t++)
        for (size_t i = 0; i < N; i++)
            free(all[t].block[i]);
    /* The library's own thread may be at a sweep: then a call of compact leaves it to that. */
    for (int tries = 0; tries < 3000 && views() != 0; tries++) {
        struct timespec pause = {0, 10000000};
        compact();
        nanosleep(&pause, NULL);
    }
    CHECK(views() == 0);
    return 0;
}
