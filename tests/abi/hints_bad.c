// A file of hints that is none is named once, with the reason, and the program goes on as without
// one. The file is missing, a folder, a pipe without a writer, a device, too large, empty, of
// another version, or garbage. Of a file of another build nothing is followed; bad lines are named,
// eight at most, and the others hold.
// flags: -Wl,--build-id=0x0badc0de01234567
// build: default the secure build keeps all sites apart
// libc: skip it has no options
// promise: 29
// musl: skip starts itself with the library preloaded
#include "hints.h"

static char text[1 << 14];

static void refused(const char *name, const char *why)
{
    char line[300];
    snprintf(line, sizeof line, "toft: TOFT_HINTS: %s: %s; going on without it\n", name, why);
    setenv("TOFT_HINTS", name, 1);
    CHECK(run_hinted("absent", text, sizeof text) == 0);
    if (strcmp(text, line) != 0)
        fprintf(stderr, "for %s: %s", name, text);
    CHECK(strcmp(text, line) == 0);
}

static void written(const char *what, const char *why)
{
    begin_hints();
    if (*what)
        hint("%s", what);
    refused(hints_name, why);
}

int main(int argc, char **argv)
{
    if (argc == 2) {
        at_site(7, 64);
        at_site(8, 64);
        at_site(9, 64);
        long own = !strcmp(argv[1], "own") ? 1 : !strcmp(argv[1], "many") ? 2 : 0;
        CHECK(statistic("own_sites") == own);
        CHECK((statistic("grouped_sites") > 0) == (strcmp(argv[1], "absent") != 0));
        return 0;
    }
    char name[80];
    snprintf(name, sizeof name, "/tmp/toft-hints-bad.%d", getpid());
    refused(name, "there is no such file");
    refused("/tmp", "it is no regular file");
    refused("/dev/null", "it is no regular file");
    refused("/proc/self/mem/x", "it cannot be opened");
    CHECK(mkfifo(name, 0600) == 0);
    refused(name, "it is no regular file");
    CHECK(unlink(name) == 0);
    int file = open(name, O_WRONLY | O_CREAT, 0600);
    CHECK(file >= 0 && write(file, "toft-hints 1\n", 13) == 13 && ftruncate(file, (16 << 20) + 1) == 0);
    close(file);
    refused(name, "it is too large");
    CHECK(unlink(name) == 0);
    written("", "its first line is not `toft-hints 1`");
    written("\177ELF\2\1\1", "its first line is not `toft-hints 1`");
    written("{\"toft_profile\":1}\n", "its first line is not `toft-hints 1`");
    written("toft-hints 2\nothers together\n", "another version than 1");

    /* Lines that are not understood, among one that is. */
    begin_hints();
    hint("toft-hints 1\nothers together\nown 0x1\nmodule %s x\nown 0x%zx\n", BUILD_ID, site_offset(7));
    hint("own %zx\n", site_offset(8));
    for (int i = 0; i < 8; i++)
        hint("garbage\n");
    char want[600];
    int n = snprintf(want, sizeof want,
                     "toft: TOFT_HINTS: %s: line 3: no line `module` before it; it is skipped\n"
                     "toft: TOFT_HINTS: %s: line 6: no offset such as 0x1a2b; it is skipped\n",
                     hints_name, hints_name);
    CHECK(run_hinted("own", text, sizeof text) == 0);
    CHECK(strncmp(text, want, (size_t)n) == 0);
    snprintf(want, sizeof want, "line 12: a word that no line begins with; it is skipped\ntoft: TOFT_HINTS: %s: "
             "2 more such lines are skipped\n", hints_name);
    CHECK(strstr(text, want) && strlen(strstr(text, want)) == strlen(want));

    /* 15 MiB of nothing, and a line behind it. */
    begin_hints();
    hint("toft-hints 1\nothers together\nmodule %s x\nown 0x%zx\n", BUILD_ID, site_offset(8));
    static char nothing[1 << 20];
    memset(nothing, '\n', sizeof nothing);
    for (int i = 0; i < 15; i++)
        CHECK(write(hints_file, nothing, sizeof nothing) == (ssize_t)sizeof nothing);
    hint("own 0x%zx", site_offset(7));
    CHECK(run_hinted("many", text, sizeof text) == 0 && !*text);

    /* Another build of this very file: told once, for all of its sites. */
    char self[300];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(len > 0);
    self[len] = 0;
    begin_hints();
    hint("toft-hints 1\nothers together\nmodule 77 %s\nown 0x%zx\nown 0x%zx\n", self, site_offset(7),
         site_offset(8));
    CHECK(run_hinted("other", text, sizeof text) == 0);
    snprintf(want, sizeof want, "toft: TOFT_HINTS: %s is not the build that the hints are of; what they say of it is "
             "skipped\n", strrchr(self, '/') + 1);
    CHECK(strcmp(text, want) == 0);

    /* What tells sites apart comes before it. */
    begin_hints();
    hint("toft-hints 1\nothers together\n");
    setenv("TOFT_PARTITIONS", "64", 1);
    refused(hints_name, "a number in TOFT_PARTITIONS comes before it");
    return 0;
}
