// TOFT_MAPPINGS=names: the library's mappings have names, where the kernel gives any; where it does
// not, that is said once.
// libc: skip it has no such option
// env: TOFT_MAPPINGS=names
// stderr-any: it may say that this kernel gives no names, which is then asserted
#include "common.h"
#include <sys/prctl.h>

static char maps[1 << 20];

/* Names mappings, and says what came of it. */
static void report(void)
{
    for (int i = 0; i < 100; i++)
        CHECK(malloc(100) && malloc(10000) && malloc(200000));
    slurp("/proc/self/maps", maps, sizeof maps);
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        report();
        /* Slabs have one name in the default build, and two in the secure ones. */
        const char *name[] = {" slabs]", "toft large block", "toft metadata"};
        for (int i = 0; i < 3; i++)
            if (!strstr(maps, name[i]))
                return 3;
        return 0;
    }
    char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    int names = prctl(0x53564d41 /* PR_SET_VMA */, 0, page, 4096, "a name") == 0;
    static char text[4096];
    int status = run_again("again", 2, text, sizeof text);
    CHECK(WIFEXITED(status));
    announce_number("names", (size_t)names);
    if (names) {
        CHECK(WEXITSTATUS(status) == 0 && !*text);
    } else {
        CHECK(WEXITSTATUS(status) == 3);
        CHECK(!strcmp(text, "toft: TOFT_MAPPINGS=names: this kernel gives mappings no names; going on without it\n"));
    }
    return 0;
}
