// A small program has the code in memory that it runs, and little of the rest: what all programs
// run lies together. The kernel maps a file's pages in pieces of 64 KiB, so what is strewn over the
// library would bring all of it. Of a file that was written in one go it may map larger pieces, so
// the program runs itself on a copy that is written page by page.
// libc: skip it is about Toft's own code
// musl: skip looks for the mappings of libtoft.so
// aarch64: skip the figures include the emulator's memory
#include "common.h"

// KiB of the library's code: all, and those in memory.
static long all, there;

static void look(void)
{
    char line[512];
    FILE *maps = fopen("/proc/self/smaps", "r");
    CHECK(maps);
    int ours = 0;
    long kib;
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx", &from, &to) == 2)
            ours = strstr(line, "/libtoft") && strstr(line, " r-xp ");
        else if (ours && sscanf(line, "Size: %ld", &kib) == 1)
            all += kib;
        else if (ours && sscanf(line, "Rss: %ld", &kib) == 1)
            there += kib;
    }
    fclose(maps);
}

/* Starts this program on a copy of the library. */
static void start_on_a_copy(char **argv)
{
    char name[] = "./libtoft-copy-XXXXXX", page[4096];
    int from = open(getenv("LD_PRELOAD"), O_RDONLY), to = mkstemp(name);
    CHECK(from >= 0 && to >= 0);
    for (ssize_t got; (got = read(from, page, sizeof page)) > 0;)
        CHECK(write(to, page, (size_t)got) == got);
    close(from);
    close(to);
    CHECK(setenv("LD_PRELOAD", name, 1) == 0 && setenv("COPY", name, 1) == 0);
    execv("/proc/self/exe", argv);
    CHECK(0);
}

int main(int argc, char **argv)
{
    (void)argc;
    if (!getenv("COPY"))
        start_on_a_copy(argv);
    CHECK(unlink(getenv("COPY")) == 0);
    static void *block[1000];
    for (int round = 0; round < 100; round++)
        for (int i = 0; i < 1000; i++) {
            free(block[i]);
            block[i] = i % 3 ? malloc(1 + (i * 37 + round) % 900) : calloc(1, 1 + i % 200);
            CHECK(block[i]);
            if (i % 7 == 0)
                CHECK(block[i] = realloc(block[i], 1 + i % 500));
        }
    look();
    printf("%ld KiB of %ld\n", there, all);
    fflush(stdout);
    CHECK(all > 300 && there > 0);
    // Two pieces, or three, depending on where they are; and one for what else may run. The secure
    // build checks more, and has one more.
    CHECK(there <= 6 * 64);
    return 0;
}
