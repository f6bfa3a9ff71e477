// mallctl and its two companions check their arguments as jemalloc's manual says, and know the
// names that programs ask for.
// libc: skip it has no such calls
// musl: skip weak names take nothing out of an archive
#include "jemalloc.h"

struct name {
    const char *name;
    size_t size;
};

/* What programs ask for, with the size of its value. */
static const struct name readable[] = {
    {"version", 8},
    {"epoch", 8},
    {"background_thread", 1},
    {"max_background_threads", 8},
    {"config.cache_oblivious", 1},
    {"config.debug", 1},
    {"config.fill", 1},
    {"config.lazy_lock", 1},
    {"config.malloc_conf", 8},
    {"config.prof", 1},
    {"config.stats", 1},
    {"config.utrace", 1},
    {"config.xmalloc", 1},
    {"opt.abort", 1},
    {"opt.abort_conf", 1},
    {"opt.background_thread", 1},
    {"opt.confirm_conf", 1},
    {"opt.dirty_decay_ms", 8},
    {"opt.dss", 8},
    {"opt.hpa", 1},
    {"opt.junk", 8},
    {"opt.max_background_threads", 8},
    {"opt.metadata_thp", 8},
    {"opt.muzzy_decay_ms", 8},
    {"opt.narenas", 4},
    {"opt.percpu_arena", 8},
    {"opt.retain", 1},
    {"opt.stats_print", 1},
    {"opt.tcache", 1},
    {"opt.thp", 8},
    {"opt.trust_madvise", 1},
    {"opt.zero", 1},
    {"opt.zero_realloc", 8},
    {"thread.arena", 4},
    {"thread.allocated", 8},
    {"thread.allocatedp", 8},
    {"thread.deallocated", 8},
    {"thread.deallocatedp", 8},
    {"thread.tcache.enabled", 1},
    {"arena.0.initialized", 1},
    {"arena.0.dirty_decay_ms", 8},
    {"arena.0.muzzy_decay_ms", 8},
    {"arenas.narenas", 4},
    {"arenas.dirty_decay_ms", 8},
    {"arenas.muzzy_decay_ms", 8},
    {"arenas.quantum", 8},
    {"arenas.page", 8},
    {"stats.allocated", 8},
    {"stats.active", 8},
    {"stats.metadata", 8},
    {"stats.metadata_thp", 8},
    {"stats.resident", 8},
    {"stats.mapped", 8},
    {"stats.retained", 8},
};

static const char *const writable[] = {
    "epoch",
    "background_thread",
    "max_background_threads",
    "thread.arena",
    "thread.tcache.enabled",
    "arena.0.dirty_decay_ms",
    "arena.0.muzzy_decay_ms",
    "arenas.dirty_decay_ms",
    "arenas.muzzy_decay_ms",
};

static const char *const actions[] = {
    "thread.tcache.flush", "arena.0.purge",    "arena.0.decay",
    "arena.4096.purge",    "arena.4096.decay",
};

static const char *const unknown[] = {
    "",          "nope",          "epoch.x",      ".",           "stats",
    "arenas.",   "stats.nope",    "arena.x.purge", "arena.-1.purge", "arena..purge",
    "arena.0",   "arena.3000.purge", "arena.99999999999999999999.purge",
};

static int is_writable(const char *name)
{
    for (size_t i = 0; i < sizeof writable / sizeof *writable; i++)
        if (strcmp(name, writable[i]) == 0)
            return 1;
    return 0;
}

static void reads(const struct name *of)
{
    unsigned char value[16], again[16];
    size_t len = of->size;
    CHECK(mallctl(of->name, value, &len, NULL, 0) == 0 && len == of->size);
    /* Without a place for the value the call succeeds. */
    CHECK(mallctl(of->name, NULL, NULL, NULL, 0) == 0);
    CHECK(mallctl(of->name, value, NULL, NULL, 0) == 0);
    /* Another size is an error, and as much as fits is there. */
    for (size_t room = 0; room <= 16; room++) {
        memset(again, 0xAA, sizeof again);
        len = room;
        int error = mallctl(of->name, again, &len, NULL, 0);
        size_t copied = room < of->size ? room : of->size;
        CHECK(error == (room == of->size ? 0 : EINVAL));
        CHECK(len == copied);
        for (size_t i = copied; i < sizeof again; i++)
            CHECK(again[i] == 0xAA);
    }
    /* By its numbers. */
    size_t mib[8], depth = 8;
    CHECK(mallctlnametomib(of->name, mib, &depth) == 0 && depth >= 1 && depth < 8);
    len = of->size;
    CHECK(mallctlbymib(mib, depth, value, &len, NULL, 0) == 0 && len == of->size);
    /* jemalloc 5.3 follows a null pointer. */
    CHECK(!on_toft() || mallctlbymib(mib, depth + 1, value, &len, NULL, 0) == ENOENT);
    CHECK(depth == 1 || mallctlbymib(mib, depth - 1, value, &len, NULL, 0) == ENOENT);
    for (size_t room = 0; room < depth; room++) {
        size_t part[8] = {77, 77, 77, 77, 77, 77, 77, 77}, n = room;
        CHECK(mallctlnametomib(of->name, part, &n) == 0 && n == room);
        CHECK(memcmp(part, mib, room * sizeof *mib) == 0 && part[room] == 77);
    }
    if (is_writable(of->name)) {
        CHECK(mallctl(of->name, NULL, NULL, value, of->size + 1) == EINVAL);
        CHECK(mallctl(of->name, NULL, NULL, value, 0) == EINVAL);
        return;
    }
    len = of->size;
    CHECK(mallctl(of->name, value, &len, value, of->size) == EPERM);
    CHECK(mallctl(of->name, NULL, NULL, value, of->size) == EPERM);
    CHECK(mallctl(of->name, NULL, NULL, NULL, of->size) == EPERM);
}

static void acts(const char *name)
{
    size_t value = 0, len = sizeof value;
    CHECK(mallctl(name, NULL, NULL, NULL, 0) == 0);
    CHECK(mallctl(name, &value, &len, NULL, 0) == EPERM);
    CHECK(mallctl(name, NULL, &len, NULL, 0) == EPERM);
    CHECK(mallctl(name, NULL, NULL, &value, sizeof value) == EPERM);
}

static void epochs(void)
{
    uint64_t first = value_of("epoch", 8), old = 0, new = 1;
    next_epoch();
    CHECK(value_of("epoch", 8) == first + 1);
    size_t len = 8;
    CHECK(mallctl("epoch", &old, &len, &new, 8) == 0 && old == first + 2);
    /* A refused write begins none. */
    CHECK(mallctl("epoch", NULL, NULL, &new, 4) == EINVAL);
    CHECK(value_of("epoch", 8) == first + 2);
}

/* What a block of this usable size counts: itself, and in a secure build the rest of its slot. */
static int counts(uint64_t bytes, uint64_t usable)
{
    return bytes >= usable && bytes <= usable + usable / 4;
}

/* The figures are those of the epoch, and are in their order. */
static void figures(void)
{
    enum { BLOCKS = 1000, SIZE = 10000 };
    static void *block[BLOCKS];
    next_epoch();
    size_t before = figure("stats.allocated");
    for (int i = 0; i < BLOCKS; i++)
        CHECK(block[i] = malloc(SIZE));
    CHECK(figure("stats.allocated") == before);
    next_epoch();
    size_t usable = malloc_usable_size(block[0]);
    CHECK(counts(figure("stats.allocated") - before, BLOCKS * usable));
    CHECK(figure("stats.active") >= figure("stats.allocated"));
    CHECK(figure("stats.active") % figure("arenas.page") == 0);
    CHECK(figure("stats.mapped") >= figure("stats.active"));
    CHECK(figure("stats.resident") >= figure("stats.active"));
    CHECK(figure("stats.metadata") > 0);
    for (int i = 0; i < BLOCKS; i++)
        free(block[i]);
    CHECK(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0) == 0);
    next_epoch();
    CHECK(figure("stats.allocated") == before);
}

/* Each name and each pointer has the same value; what they count is in jemalloc_thread_counters.c. */
static void counters(void)
{
    uint64_t *allocated = (uint64_t *)value_of("thread.allocatedp", 8);
    uint64_t *freed = (uint64_t *)value_of("thread.deallocatedp", 8);
    uint64_t before[] = {value_of("thread.allocated", 8), value_of("thread.deallocated", 8)};
    CHECK(*allocated == before[0] && *freed == before[1] && before[0] >= before[1]);
    void *small = malloc(100), *large = malloc(1000000);
    uint64_t usable = malloc_usable_size(small) + malloc_usable_size(large);
    uint64_t counted = value_of("thread.allocated", 8) - before[0];
    CHECK(counts(counted, usable) && *allocated == before[0] + counted);
    free(small);
    free(large);
    CHECK(value_of("thread.deallocated", 8) == before[1] + counted);
    CHECK(*freed == before[1] + counted && value_of("thread.allocated", 8) == before[0] + counted);
}

static void arenas(void)
{
    unsigned arena = 0, cache = 0, count = (unsigned)value_of("arenas.narenas", 4);
    char name[64];
    /* As Redis purges: the number after the last one was the word for all of them. */
    snprintf(name, sizeof name, "arena.%u.purge", count);
    CHECK(mallctl(name, NULL, NULL, NULL, 0) == 0);
    snprintf(name, sizeof name, "arena.%u.purge", count + 1);
    CHECK(mallctl(name, NULL, NULL, NULL, 0) == ENOENT);
    size_t len = sizeof arena;
    CHECK(mallctl("arenas.create", &arena, &len, NULL, 0) == 0 && arena == count);
    CHECK(value_of("arenas.narenas", 4) == count + 1);
    len = sizeof arena;
    CHECK(mallctl("arenas.create", NULL, &len, NULL, 0) == EINVAL && len == 0);
    void *p = mallocx(100, ARENA((int)arena) | TCACHE_NONE);
    CHECK(p);
    sdallocx(p, 100, TCACHE_NONE);
    ssize_t time = 100;
    snprintf(name, sizeof name, "arena.%u.dirty_decay_ms", arena);
    CHECK(mallctl(name, NULL, NULL, &time, sizeof time) == 0);
    time = -2;
    CHECK(mallctl(name, NULL, NULL, &time, sizeof time) == EFAULT);
    CHECK(mallctl("arenas.muzzy_decay_ms", NULL, NULL, &time, sizeof time) == EFAULT);
    CHECK(mallctl("arena.4096.dirty_decay_ms", NULL, NULL, &time, sizeof time) == EFAULT);
    snprintf(name, sizeof name, "arena.%u.destroy", arena);
    CHECK(mallctl(name, NULL, NULL, NULL, 0) == 0);
    CHECK(mallctl("arena.0.destroy", NULL, NULL, NULL, 0) == EFAULT);
    CHECK(mallctl("arena.4096.destroy", NULL, NULL, NULL, 0) == EFAULT);
    arena = 100000;
    CHECK(mallctl("thread.arena", NULL, NULL, &arena, sizeof arena) == EFAULT);

    len = sizeof cache;
    CHECK(mallctl("tcache.create", &cache, &len, NULL, 0) == 0);
    CHECK(mallctl("tcache.flush", NULL, NULL, &cache, sizeof cache) == 0);
    CHECK(mallctl("tcache.flush", &cache, &len, NULL, 0) == EPERM);
    CHECK(mallctl("tcache.destroy", NULL, NULL, &cache, sizeof cache) == 0);

    /* Programs take the numbers of one arena's name and change the arena. */
    size_t mib[3], depth = 3;
    CHECK(mallctlnametomib("arena.0.purge", mib, &depth) == 0 && depth == 3 && mib[1] == 0);
    mib[1] = 4096;
    CHECK(mallctlbymib(mib, 3, NULL, NULL, NULL, 0) == 0);
    mib[1] = 3000;
    CHECK(mallctlbymib(mib, 3, NULL, NULL, NULL, 0) == ENOENT);
    mib[0] = 9999;
    CHECK(mallctlbymib(mib, 3, NULL, NULL, NULL, 0) == ENOENT);
    CHECK(mallctlbymib(mib, 0, NULL, NULL, NULL, 0) == ENOENT);
    depth = 3;
    CHECK(mallctlnametomib("arena.3000.purge", mib, &depth) == ENOENT);
    depth = 3;
    CHECK(mallctlnametomib("arena", mib, &depth) == 0 && depth == 1);
}

static char text[200000];

static void append(void *opaque, const char *part)
{
    /* The function of a program may allocate. */
    free(malloc(100));
    CHECK(opaque == text);
    strncat(text, part, sizeof text - strlen(text) - 1);
}

static void prints(void)
{
    malloc_stats_print(append, text, NULL);
    CHECK(strstr(text, "allocated") && strstr(text, "jemalloc statistics"));
    text[0] = 0;
    malloc_stats_print(append, text, "Jmdablxeg");
    CHECK(strncmp(text, "{", 1) == 0 && strstr(text, "\"jemalloc\""));
    CHECK(strstr(text, "\"stats\"") && strstr(text, "\"allocated\"") && strstr(text, "}"));
}

int main(void)
{
    CHECK(mallctl && mallctlnametomib && mallctlbymib && malloc_stats_print);
    for (size_t i = 0; i < sizeof readable / sizeof *readable; i++)
        reads(&readable[i]);
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        acts(actions[i]);
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        CHECK(mallctl(unknown[i], NULL, NULL, NULL, 0) == ENOENT);
    size_t mib[4], depth = 4;
    CHECK(mallctlnametomib("nope", mib, &depth) == ENOENT && depth == 4);
    CHECK(value_of("arenas.page", 8) == (size_t)sysconf(_SC_PAGESIZE));
    CHECK(value_of("arenas.quantum", 8) == 16);
    CHECK(strncmp((const char *)value_of("version", 8), "5.3.", 4) == 0);
    epochs();
    figures();
    counters();
    arenas();
    prints();
    return 0;
}
