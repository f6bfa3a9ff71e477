// A filter that is installed while there is no memory for an allocator at all: when there is,
// later, it does not believe that it would have been told.
// promise: 24
// musl: skip does not run .preinit_array
#include "filter.h"

static struct rlimit before;

static void starve(void)
{
    CHECK(getrlimit(RLIMIT_AS, &before) == 0);
    struct rlimit none = {1, before.rlim_max};
    CHECK(setrlimit(RLIMIT_AS, &none) == 0);
}

/* Before the constructors of libraries. */
__attribute__((section(".preinit_array"), used)) static void (*first)(void) = starve;

int main(void)
{
    if (on_toft())
        CHECK(malloc(100) == NULL && errno == ENOMEM);
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    INSTALL(all);
    CHECK(setrlimit(RLIMIT_AS, &before) == 0);
    CHECK(pipe(pipe_ends) == 0);
    free(malloc(100));
    expect_state("unwatched");
    return 0;
}
