// A program that is linked to the library changes its users and groups in all its threads, with the
// results of the C library. A static program cannot look for the C library's own functions.
#include "toft.h"
#include "tasks.h"
#include <grp.h>
#include <sys/syscall.h>

#ifdef __cplusplus
extern "C"
#endif
int unshare(int flags);

static void *sleeper(void *arg)
{
    for (;;)
        pause();
    return arg;
}

int main(void)
{
    enum { OTHER = 65534 };
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, sleeper, NULL) == 0);
    CHECK(toft_version()[0]); /* brings all of the library in */
    grow_until_reclaimer();
    CHECK(setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1) == 0 && unshare(0) == 0);
    errno = 0;
    CHECK(seteuid((uid_t)-1) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(setegid((gid_t)-1) == -1 && errno == EINVAL);
    if (geteuid() != 0)
        return 0; /* nothing can be changed */
    gid_t groups[2] = {7, 8};
    CHECK(setgroups(2, groups) == 0 && with_other_ids() == 0);
    CHECK(setgid(1) == 0 && setegid(2) == 0 && with_other_ids() == 0);
    CHECK(setregid(3, 3) == 0 && setresgid(OTHER, OTHER, OTHER) == 0 && with_other_ids() == 0);
    CHECK(seteuid(5) == 0 && geteuid() == 5 && getuid() == 0 && with_other_ids() == 0);
    CHECK(seteuid(0) == 0 && setreuid(0, 0) == 0 && setresuid(OTHER, OTHER, OTHER) == 0);
    CHECK(getuid() == OTHER && getgid() == OTHER && getgroups(0, NULL) == 2);
    CHECK(with_other_ids() == 0);
    errno = 0;
    CHECK(setuid(0) == -1 && errno == EPERM);
    grow_until_reclaimer();
    CHECK(with_other_ids() == 0);
    return 0;
}
