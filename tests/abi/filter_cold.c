// Paging out and prefault under a filter that kills at every call that a malloc need not make, also
// in the library's thread. What the filter forbids is left out.
// flags: -pthread
// env: TOFT_COLD=1
// libc: skip it has no such option
// timeout: 60
// promise: 24
#include "filter.h"

int main(void)
{
    size_t (*page_out)(void) = (size_t(*)(void))symbol("toft_pageout_cold");
    CHECK(page_out);
    prepare();
    /* Enough for the library's thread, in slabs and in large blocks, and for a scan or two. */
    enum { N = 40000, SIZE = 1000, LARGE = 8 << 20 };
    static unsigned char *block[N + 1];
    for (int i = 0; i < N; i++) {
        CHECK((block[i] = malloc(SIZE)));
        fill(block[i], SIZE, (uint64_t)i);
    }
    CHECK((block[N] = malloc(LARGE)));
    fill(block[N], LARGE, N);
    CHECK(page_out() == 0);
    struct timespec wait = {2, 500000000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &wait, NULL);

    struct sock_filter usual[] = USUAL_CALLS;
    struct sock_fprog program = PROGRAM(usual);
    CHECK(syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
    CHECK(page_out() == 0);
    CHECK(page_out() == 0);
    /* For as long as it takes the thread to find everything cold. */
    wait.tv_sec = 4;
    clock_nanosleep(CLOCK_MONOTONIC, 0, &wait, NULL);
    storm();
    for (int i = 0; i <= N; i++)
        CHECK(filled(block[i], i < N ? SIZE : LARGE, (uint64_t)i));
    return 0;
}
