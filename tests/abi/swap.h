/* Swap belongs to the whole machine: what one test switches on, all others have, and with swap the pages of claims are
 * not discarded (docs/decisions/0028-pages-of-claims.md). So tests that need swap and tests that need none take turns. */
#ifndef TOFT_TESTS_SWAP_H
#define TOFT_TESTS_SWAP_H

#include "../common.h"
#include <sys/file.h>

/* LOCK_EX to switch swap on, LOCK_SH to keep it off. Held until this process and all children that it forks after this
 * have exited. */
HELPER void lock_swap(int how)
{
    /* With fs.protected_regular, O_CREAT fails for another user's file. */
    const char *lock = "/tmp/toft-test-swap.lock";
    int fd = open(lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        fd = open(lock, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    CHECK(fd >= 0);
    while (flock(fd, how) != 0)
        CHECK(errno == EINTR);
}

#endif
