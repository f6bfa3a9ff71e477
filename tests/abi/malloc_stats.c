// malloc_stats writes to standard error what is really in use, and by which call sites: the largest
// first, each with the file that it is in.
// promise: 22
#include "common.h"

static int expected;

static size_t in_use(void)
{
    char name[] = "/tmp/toft-stats-XXXXXX", text[65536];
    int fd = mkstemp(name), saved = dup(2);
    CHECK(fd >= 0 && saved >= 0);
    unlink(name);
    CHECK(dup2(fd, 2) == 2);
    malloc_stats();
    fflush(stderr);
    CHECK(dup2(saved, 2) == 2);
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    CHECK(n > 0);
    text[n] = 0;
    close(fd);
    close(saved);
    if (on_toft()) {
        char *sites = strstr(text, "toft: call sites with live blocks: ");
        CHECK(sites);
        unsigned long last = ULONG_MAX, lines = 0;
        for (char *line = sites; (line = strstr(line + 1, "\ntoft:   "));) {
            unsigned long bytes = strtoul(line + 9, NULL, 10);
            if (strstr(line, " more\n") && !strstr(line + 1, "\ntoft:   "))
                break;
            CHECK(bytes <= last);
            if (lines++ == 0 && expected) {
                unsigned long blocks, ever;
                char place[300];
                CHECK(sscanf(line, "\ntoft:   %lu %lu %lu %299s", &bytes, &blocks, &ever, place) == 4);
                CHECK(bytes >= 5000000 && blocks == 1000 && ever == 1000 && strstr(place, "malloc_stats+0x"));
            }
            last = bytes;
        }
        CHECK(lines <= 10 && (lines > 0 || !expected));
        char *live = strstr(text, "live bytes:");
        CHECK(live);
        return strtoul(live + 11, NULL, 10);
    }
    char *total = strstr(text, "Total");
    CHECK(total);
    char *use = strstr(total, "in use bytes");
    CHECK(use);
    return strtoul(strchr(use, '=') + 1, NULL, 10);
}

int main(void)
{
    size_t before = in_use();
    static void *block[1000];
    for (int i = 0; i < 1000; i++)
        CHECK((block[i] = malloc(5000)));
    expected = 1;
    size_t with = in_use();
    expected = 0;
    CHECK(with >= before + 5000000 && with < before + 6000000);
    for (int i = 0; i < 1000; i++)
        free(block[i]);
    CHECK(in_use() <= before + 100000);
    return 0;
}
