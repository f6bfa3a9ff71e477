// A child frees what its parent freed before the fork.
// run: 64
// run: 5000
// run: 300000
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: each process frees its own copy once
// promise: 4
#include "common.h"

int main(int argc, char **argv)
{
    void *p = announced_block(argc, argv);
    MISUSE(free(p);)
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        free(launder(p));
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    if (WIFSIGNALED(status))
        raise(WTERMSIG(status));
    CORRECT(free(p);)
    return END;
}
