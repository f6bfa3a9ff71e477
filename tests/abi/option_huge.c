// Huge pages with TOFT_HUGE. `off`, the default, and `dense` advise slabs against them, where the
// system makes some by itself; `kernel` does not. `dense` makes them where everything is live, in
// slabs and in large blocks, and what is freed there is returned to the OS all the same.
// build: default slots that are taken at random leave slabs less dense
// libc: skip it has no such option
// stderr-any: it may say that the kernel has no huge pages to ask for
// timeout: 180
// run: off
// run: dense
// run: kernel
#include "common.h"

enum { N = 48 << 10, SIZE = 1024, LARGE = 32 << 20 };
static unsigned char *block[N], *large;

/* A figure of smaps_rollup, in bytes; or, with a block, whether its mapping has a flag. */
static size_t huge_bytes(void)
{
    char line[200];
    size_t kib = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    CHECK(f);
    while (fgets(line, sizeof line, f))
        sscanf(line, "AnonHugePages: %zu", &kib);
    fclose(f);
    return kib << 10;
}

static int has_flag(const void *p, const char *flag)
{
    static char line[1000];
    int inside = 0, has = 0;
    FILE *f = fopen("/proc/self/smaps", "r");
    CHECK(f);
    while (fgets(line, sizeof line, f)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            inside = (uintptr_t)p >= start && (uintptr_t)p < end;
        else if (inside && !strncmp(line, "VmFlags:", 8))
            has = strstr(line, flag) != NULL;
    }
    fclose(f);
    return has;
}

/* Whether the system makes huge pages unasked. */
static int unasked(void)
{
    static char all[256], middle[256];
    slurp("/sys/kernel/mm/transparent_hugepage/enabled", all, sizeof all);
    const char *path = "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled";
    if (access(path, R_OK) == 0)
        slurp(path, middle, sizeof middle);
    return strstr(all, "[always]") || strstr(middle, "[always]");
}

/* Whether a range can be made huge here, asked of memory of our own. */
static int can_collapse(void)
{
    char *p = mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    char *aligned = (char *)(((uintptr_t)p + (2 << 20) - 1) & ~((uintptr_t)(2 << 20) - 1));
    memset(aligned, 1, 2 << 20);
    int can = madvise(aligned, 2 << 20, 25 /* MADV_COLLAPSE */) == 0;
    munmap(p, 4 << 20);
    return can;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    if (!getenv("TOFT_HUGE")) {
        if (access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0 || !can_collapse()) {
            fprintf(stderr, "skipped: the kernel makes no huge pages on demand\n");
            return 0;
        }
    }
    anew_with(argv, "TOFT_HUGE", argv[1]);
    int dense = !strcmp(argv[1], "dense");
    for (int i = 0; i < N; i++) {
        CHECK((block[i] = malloc(SIZE)));
        fill(block[i], SIZE, (uint64_t)i);
    }
    CHECK((large = malloc(LARGE)));
    fill(large, LARGE, 7);
    int advised = unasked() && strcmp(argv[1], "kernel") != 0;
    CHECK(has_flag(block[N / 2], " nh") == advised);
    CHECK(!has_flag(large, " nh"));
    if (strcmp(argv[1], "kernel") == 0)
        return 0;
    size_t before = huge_bytes(), wanted = ((size_t)N * SIZE + LARGE) / 10 * 8, rss = rss_bytes();
    int made = 0;
    for (int tenths = 0; tenths < (dense ? 600 : 80) && !made; tenths++) {
        usleep(100000);
        /* The thread has something to check now and then. */
        free(malloc(200000));
        made = huge_bytes() >= wanted;
    }
    announce_number("huge", huge_bytes());
    CHECK(made == (dense || before >= wanted));
    CHECK(rss_bytes() < rss + rss / 16);
    for (int i = 0; i < N; i++)
        CHECK(filled(block[i], SIZE, (uint64_t)i));
    CHECK(filled(large, LARGE, 7));
    /* Seven eighths go, and their pages with them, out of the middle of huge ones. */
    for (int i = 0; i < N; i++)
        if (i / 64 % 8) {
            free(block[i]);
            block[i] = NULL;
        }
    purge_all();
    size_t left = rss_bytes();
    CHECK(left < rss - (size_t)N * SIZE / 4 * 3);
    for (int tenths = 0; tenths < 50; tenths++) {
        usleep(100000);
        free(malloc(200000));
    }
    CHECK(rss_bytes() < left + (1 << 20));
    for (int i = 0; i < N; i++)
        CHECK(!block[i] || filled(block[i], SIZE, (uint64_t)i));
    CHECK(has_flag(block[0], " nh") == advised);
    return 0;
}
