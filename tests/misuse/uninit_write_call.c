// The kernel reads a block of which nothing was written, for write(2): that is named as well, by
// the watcher.
// env: TOFT_GUARDED=uninit
// expect: signal ABRT
// stderr: toft: uninitialised read: system call({p}): byte 0 of the {size}-byte block at {p} was never written, and system call 1 reads it (guarded block, live; call site {addr})
// libc: skip it has no such option
// twin: writes it first
// promise: 28
#include "common.h"

int main(void)
{
    char name[] = "/tmp/toft-unset-XXXXXX";
    int fd = mkstemp(name);
    CHECK(fd >= 0 && unlink(name) == 0);
    char *p = launder(malloc(4096));
    announce_block(p);
    CORRECT(memset(p, 1, 4096);)
    CHECK(write(fd, p, 4096) == 4096);
    free(p);
    return END;
}
