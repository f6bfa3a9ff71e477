// TOFT_SCOPE=program: the program is on the library and its children are not; the rest of the
// environment, other preloads among it, is left alone.
// env: TOFT_SCOPE=program
// env: TOFT_LARGE_KEEP=1m
// env: OTHER=kept
// libc: skip it has no such option
#include "common.h"

extern char **environ;

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        CHECK(!on_toft());
        puts("plain");
        return 0;
    }
    CHECK(on_toft());
    CHECK(getenv("LD_PRELOAD") == NULL || strstr(getenv("LD_PRELOAD"), "libtoft") == NULL);
    for (char **e = environ; *e; e++)
        CHECK(strncmp(*e, "TOFT_", 5) != 0);
    CHECK(getenv("OTHER") && strcmp(getenv("OTHER"), "kept") == 0);
    char text[100];
    CHECK(run_again("child", 1, text, sizeof text) == 0);
    CHECK(strcmp(text, "plain\n") == 0);
    return 0;
}
