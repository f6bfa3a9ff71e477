// Each page of a block by itself: the first was written, the third is read. In a thread, in the
// child of a fork, and in a part that realloc has added.
// flags: -pthread
// env: TOFT_GUARDED=uninit
// run: 0
// run: 1
// run: 2
// run: 3
// expect: signal ABRT
// stderr: toft: uninitialised read: read({q}): byte {at} of the {size}-byte block at {p} was never written (guarded block, live; call site {addr})
// libc: skip it has no such option
// twin: reads what it has written
// promise: 28
#include "common.h"

static int mode;

static void *work(void *arg)
{
    size_t size = 16384, page = page_size();
    char *p = launder(malloc(size));
    if (mode == 3) {
        p = realloc(p, size *= 2);
        CHECK(p);
    }
    announce_block(p);
    p[0] = p[1] = 1;
    /* What realloc has taken along was written. */
    size_t far = mode == 3 ? size / 2 + 2 * page : 2 * page;
    char *q = (char *)(((uintptr_t)p + far) & ~(page - 1)) + 77;
    announce("q", q);
    announce_number("at", (size_t)(q - p));
    CORRECT(*q = 0;)
    CHECK(*(volatile char *)launder(q) == 0);
    free(p);
    return arg;
}

int main(int argc, char **argv)
{
    mode = argc > 1 ? atoi(argv[1]) : 0;
    free(launder(malloc(1)));
    if (mode == 1) {
        join(spawn(work, NULL));
    } else if (mode == 2) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            work(NULL);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        if (WIFSIGNALED(status)) {
            signal(WTERMSIG(status), SIG_DFL);
            struct rlimit none = {0, 0};
            setrlimit(RLIMIT_CORE, &none);
            raise(WTERMSIG(status));
        }
    } else {
        work(NULL);
    }
    return END;
}
