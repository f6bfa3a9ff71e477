// Huge pages with TOFT_HUGE. `off`, the default, advises slabs against them where the system makes
// some by itself, so that what was returned to the OS stays away; `kernel` does not.
// build: default slots that are taken at random leave a live block on most pages
// libc: skip it has no such option
// stderr-any: it may say that the kernel has no huge pages
// timeout: 60
// run: off
// run: kernel
#include "common.h"

enum { N = 48 << 10, SIZE = 1024, LARGE = 32 << 20 };
static unsigned char *block[N], *large;

/* The bytes of the process in huge pages. */
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

/* Whether the mapping of a block has a flag. */
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

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    if (access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0) {
        fprintf(stderr, "skipped: the kernel has no huge pages\n");
        return 0;
    }
    anew_with(argv, "TOFT_HUGE", argv[1]);
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
    /* The large block may have some, as the system likes. */
    announce_number("huge", huge_bytes());
    CHECK(huge_bytes() < LARGE + (size_t)N * SIZE / 2);
    size_t rss = rss_bytes();
    /* Seven eighths go, and their pages with them. */
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
