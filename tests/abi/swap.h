/* Swap is the whole machine's: what a test makes is there for every other, and where there is swap, claims stay
 * (docs/decisions/0028-pages-of-claims.md). So tests that need it and tests that need none take turns. */
#ifndef TOFT_TESTS_SWAP_H
#define TOFT_TESTS_SWAP_H

#include "../common.h"
#include <sys/file.h>

/* LOCK_EX to make swap, LOCK_SH to have none made. Until this process and the children that it has from now on have
 * ended. */
HELPER void lock_swap(int how)
{
    /* Another user's file is opened, and not to be created. */
    const char *lock = "/tmp/toft-test-swap.lock";
    int fd = open(lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        fd = open(lock, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    CHECK(fd >= 0);
    while (flock(fd, how) != 0)
        CHECK(errno == EINTR);
}

#endif
