// toft_profile writes how many blocks each call site has and has ever had, exactly: of small,
// medium and large blocks, freed by their thread and by another, resized in place and moved; also
// where call sites share all memory.
// flags: -pthread -O1
// libc: skip it has no toft_profile
// run: exact
// run: hash
// promise: 22
#include "common.h"

static char text[4 << 20];

static void take_profile(void)
{
    int (*profile)(int) = (int (*)(int))symbol("toft_profile");
    CHECK(profile);
    char name[] = "/tmp/toft-counts-XXXXXX";
    int fd = mkstemp(name);
    CHECK(fd >= 0);
    unlink(name);
    CHECK(profile(fd) == 0);
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    CHECK(n > 0 && n < (ssize_t)sizeof text - 1);
    text[n] = 0;
    close(fd);
    CHECK(strncmp(text, "{\"toft_profile\":1", 17) == 0 && strstr(text, "\"source\":\"call\""));
    CHECK(profile(-1) == -1);
    /* Rows only. */
    char *sampled = strstr(text, "\"sampled\":");
    if (sampled) {
        char *sums = strrchr(text, ']');
        memmove(sampled, sums, strlen(sums) + 1);
    }
}

struct counts {
    unsigned long objects, bytes, allocations, allocated;
};

static unsigned long field(const char *row, const char *name)
{
    const char *at = strstr(row, name);
    CHECK(at);
    return strtoul(at + strlen(name), NULL, 10);
}

/* Of the calls in a function, which is the next 400 bytes at most, or of all. */
static struct counts counts_of(void *function)
{
    struct counts sum = {0};
    for (char *row = strstr(text, "{\"site\":\""); row; row = strstr(row + 1, "{\"site\":\"")) {
        uintptr_t site = strtoul(row + 9, NULL, 16);
        if (function && site - (uintptr_t)function >= 400)
            continue;
        sum.objects += field(row, "\"objects\":");
        sum.bytes += field(row, "\"bytes\":");
        sum.allocations += field(row, "\"allocations\":");
        sum.allocated += field(row, "\"allocated\":");
    }
    return sum;
}

#define SITE __attribute__((noinline, aligned(512))) static void *
SITE small(void) { return launder(malloc(40)); }
SITE medium(void) { return launder(malloc(5000)); }
SITE handed(void) { return launder(malloc(72)); }
SITE mixed(size_t size) { return launder(malloc(size)); }
SITE large_a(size_t size) { return launder(malloc(size)); }
SITE large_b(size_t size) { return launder(malloc(size)); }
SITE resized(size_t size) { return launder(malloc(size)); }
SITE moved(void *p, size_t size) { return launder(realloc(p, size)); }

static void *kept[20000];

static void *free_all(void *count)
{
    for (size_t i = 0; i < (size_t)count; i++)
        free(kept[i]);
    return NULL;
}

static struct counts model[2];

int main(int argc, char **argv)
{
    CHECK(argc == 2 || argc == 3);
    int exact = !strcmp(argv[argc - 1], "exact");
    if (argc == 2) {
        if (exact)
            setenv("TOFT_PARTITIONS", "exact", 1);
        else
            setenv("TOFT_PARTITIONS", "1", 1);
        char *words[] = {"/proc/self/exe", "child", argv[1], NULL};
        execv(words[0], words);
        CHECK(0);
    }
    for (int i = 0; i < 10000; i++) {
        void *p = small();
        if (i % 100)
            free(p);
    }
    for (int i = 0; i < 3000; i++)
        kept[i] = medium();
    for (int i = 7; i < 3000; i++)
        free(kept[i]);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 5000; i++)
            kept[i] = handed();
        join(spawn(free_all, (void *)5000));
    }
    /* Any order, so that claims, lists and credits see everything. */
    unsigned long seed = 12345;
    memset(kept, 0, sizeof kept);
    for (int i = 0; i < 400000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        void **place = &kept[(seed >> 33) % 20000];
        if (*place) {
            model[0].objects--;
            free(*place);
            *place = NULL;
        } else {
            model[0].objects++;
            model[0].allocations++;
            *place = mixed(1 + (seed >> 50) % 2000);
        }
    }
    static void *large[40];
    for (int i = 0; i < 30; i++) {
        free(large_a(300000));
        large[i] = large_b(300000);
        if (i >= 5)
            free(large[i]);
    }
    /* What stays where it is, is one block; what moves is two. */
    void *p = resized(200000);
    struct counts grown = {1, 0, 0, 0};
    size_t had = malloc_usable_size(p);
    for (size_t size = 210000; size < 3000000; size = size * 5 / 4) {
        void *q = moved(p, size);
        CHECK(q);
        size_t has = malloc_usable_size(q);
        if (q != p) {
            grown.allocations++;
            grown.allocated += has;
        } else if (has > had) {
            grown.allocated += has - had;
        }
        p = q;
        had = has;
    }
    take_profile();
    struct counts all = counts_of(NULL);
    CHECK(all.objects == field(strrchr(text, ']'), "\"objects\":"));
    struct counts a = counts_of((void *)large_a), b = counts_of((void *)large_b);
    CHECK(a.objects == 0 && a.allocations == 30 && a.allocated >= 30 * 300000);
    CHECK(b.objects == 5 && b.allocations == 30 && b.allocated == a.allocated && b.bytes == a.allocated / 6);
    struct counts r = counts_of((void *)resized), m = counts_of((void *)moved);
    CHECK(r.objects + m.objects == 1 && r.bytes + m.bytes == had);
    CHECK(r.allocations + m.allocations == 1 + grown.allocations);
    CHECK(r.allocated + m.allocated == malloc_usable_size(resized(200000)) + grown.allocated);
    if (exact) {
        struct counts s = counts_of((void *)small);
        CHECK(s.objects == 100 && s.allocations == 10000 && s.bytes == 100 * 48 && s.allocated == 10000 * 48);
        struct counts d = counts_of((void *)medium);
        CHECK(d.objects == 7 && d.allocations == 3000 && d.allocated / 3000 == d.bytes / 7);
        struct counts h = counts_of((void *)handed);
        CHECK(h.objects == 0 && h.allocations == 15000 && h.allocated == 15000 * 80);
        struct counts x = counts_of((void *)mixed);
        CHECK(x.objects == model[0].objects && x.allocations == model[0].allocations);
    } else {
        /* Their sizes do not tell whose they were; all together they are as many. */
        unsigned long mine = 10000 + 3000 + 15000 + model[0].allocations + 60;
        CHECK(all.allocations >= mine + 1 && all.allocations < mine + 200);
    }
    return 0;
}
