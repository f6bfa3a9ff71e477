// With TOFT_COLD=1 live data goes out that was not used for a second or two, without any call; with
// it off, the default, it does not. What is out comes back by being read.
// libc: skip it has no such option
// stderr-any: it may say that there is no swap
// timeout: 120
// run: on
// run: off
#include "cold.h"

enum { N = 40000, SIZE = 1000 };
static unsigned char *block[N];

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    if (!getenv("TOFT_COLD")) {
        need_swap(256);
        if (!kernel_tells()) {
            fprintf(stderr, "skipped: this kernel does not tell of pages\n");
            return 0;
        }
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            setenv("TOFT_COLD", strcmp(argv[1], "on") ? "0" : "1", 1);
            execv("/proc/self/exe", argv);
            _exit(1);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    for (int i = 0; i < N; i++) {
        CHECK((block[i] = malloc(SIZE)));
        fill(block[i], SIZE, (uint64_t)i);
    }
    size_t before = rss_bytes(), bytes = (size_t)N * SIZE;
    int out = 0;
    /* A generous while, for a machine that is busy; with it off, as long as it takes with it on. */
    for (int tenths = 0; tenths < (strcmp(argv[1], "on") ? 50 : 300) && !out; tenths++) {
        usleep(100000);
        out = before - rss_bytes() > bytes / 100 * 90 && rss_bytes() < before;
    }
    CHECK(out == !strcmp(argv[1], "on"));
    for (int i = 0; i < N; i++)
        CHECK(filled(block[i], SIZE, (uint64_t)i));
    CHECK(rss_bytes() > before / 100 * 90);
    return 0;
}
