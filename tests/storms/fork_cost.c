// What a fork costs a process with a small heap, in counts: page tables and mappings, which the
// kernel copies for each child, and page faults of the child, each a page that it maps or copies.
// Beside this program on libc.
// libc: skip it is compared with libc
// timeout: 120
// promise: 23
#include "many_sites.h"

enum { SITES = 48, BLOCKS = 9000, WORK = 300, RUNS = 3, PROCESSES = 20 };

/* Of the parent: page tables in KiB, mappings. Of a child: faults if it exits at once, and if it allocates. */
struct cost {
    unsigned long tables, mappings, idle, busy;
};

static void *block[BLOCKS];
static struct rng rng = {88172645463325252};

/* Most sites have one size, as those of structures do; one in eight is asked for strings. */
static void *get(void)
{
    size_t n = rng_below(&rng, SITES);
    struct rng of_site = {n + 1};
    size_t spread = rng_below(&of_site, 100), size;
    if (n % 8 == 0)
        size = 1 + rng_below(&rng, 256);
    else if (spread < 60)
        size = 16 + rng_below(&of_site, 112);
    else if (spread < 95)
        size = 128 + rng_below(&of_site, 384);
    else
        size = 512 + rng_below(&of_site, 4096);
    char *p = at_site((int)n, size);
    memset(p, 1, size < 64 ? size : 64);
    return p;
}

static void work(void)
{
    void *p[WORK];
    for (int i = 0; i < WORK; i++)
        p[i] = get();
    for (int i = 0; i < WORK; i++)
        free(p[i]);
}

/* Page faults of a child, from the fork to its end. */
static unsigned long faults_of_child(int busy)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        if (busy)
            work();
        _exit(0);
    }
    struct rusage used;
    int status;
    CHECK(wait4(pid, &status, 0, &used) == pid && status == 0);
    return (unsigned long)used.ru_minflt;
}

static unsigned long least(unsigned long a, unsigned long b)
{
    return a < b ? a : b;
}

static struct cost measure(void)
{
    for (int i = 0; i < BLOCKS; i++)
        block[i] = get();
    for (int i = 0; i < 2 * BLOCKS; i++) {
        size_t which = rng_below(&rng, BLOCKS);
        free(block[which]);
        block[which] = get();
    }
    char text[8192];
    slurp("/proc/self/status", text, sizeof text);
    char *tables = strstr(text, "VmPTE:");
    CHECK(tables);
    struct cost cost = {strtoul(tables + 6, NULL, 10), mapping_count(), ULONG_MAX, ULONG_MAX};
    /* The least of some, because the first child finds less of the program in memory. */
    for (int i = 0; i < RUNS; i++) {
        cost.idle = least(cost.idle, faults_of_child(0));
        cost.busy = least(cost.busy, faults_of_child(1));
    }
    return cost;
}

/* The least of some processes, because faults depend on where things are. */
static struct cost of_runs(void)
{
    struct cost all = {ULONG_MAX, ULONG_MAX, ULONG_MAX, ULONG_MAX};
    for (int i = 0; i < PROCESSES; i++) {
        char text[200];
        struct cost cost;
        CHECK(run_again("measure", 1, text, sizeof text) == 0);
        CHECK(sscanf(text, "%lu %lu %lu %lu", &cost.tables, &cost.mappings, &cost.idle, &cost.busy) == 4);
        all.tables = least(all.tables, cost.tables);
        all.mappings = least(all.mappings, cost.mappings);
        all.idle = least(all.idle, cost.idle);
        all.busy = least(all.busy, cost.busy);
    }
    return all;
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        struct cost cost = measure();
        printf("%lu %lu %lu %lu\n", cost.tables, cost.mappings, cost.idle, cost.busy);
        return 0;
    }
    struct cost toft = of_runs();
    CHECK(unsetenv("LD_PRELOAD") == 0);
    struct cost libc = of_runs();
    announce_number("tables_kib", toft.tables);
    announce_number("tables_kib_libc", libc.tables);
    announce_number("mappings", toft.mappings);
    announce_number("mappings_libc", libc.mappings);
    announce_number("faults_idle", toft.idle);
    announce_number("faults_idle_libc", libc.idle);
    announce_number("faults_busy", toft.busy);
    announce_number("faults_busy_libc", libc.busy);
    /* The secure build knows the requested size. It has plots for each site. */
    void *probe = malloc(1);
    int secure = malloc_usable_size(probe) == 1;
    free(probe);
    CHECK(toft.tables <= libc.tables + (secure ? 420 : 120));
    CHECK(toft.mappings <= libc.mappings + (secure ? 65 : 25));
    /* Seven to eight (docs/memory.md): the handler's code and tables, and the symbols of one library more for the
     * loader. It was 60 in the secure build before the child wrote only what changes. */
    CHECK(toft.idle <= libc.idle + 14);
    CHECK(toft.busy <= libc.busy + libc.busy / 20);
    return 0;
}
