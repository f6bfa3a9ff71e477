// TOFT_MAPPINGS=lock where little may be locked: that is said once, and the program goes on.
// libc: skip it has no such option
// env: TOFT_MAPPINGS=lock
// ulimit: -l 16
// stderr: toft: TOFT_MAPPINGS=lock: the system does not lock so much memory; going on without it
#include "common.h"
#include <sys/prctl.h>

int main(int argc, char **argv)
{
    if (argc == 1) {
        /* Whoever may lock as much as there is gives that up for good, and has not allocated before. */
        prctl(PR_CAPBSET_DROP, 14 /* CAP_IPC_LOCK */, 0, 0, 0);
        unsetenv("TOFT_MAPPINGS");
        char *const again[] = {argv[0], (char *)"again", NULL};
        char *env[64] = {(char *)"TOFT_MAPPINGS=lock"};
        int n = 1;
        for (char **e = environ; *e && n < 63; e++)
            env[n++] = *e;
        execve("/proc/self/exe", again, env);
        return 1;
    }
    for (int i = 0; i < 1000; i++) {
        char *p = malloc((size_t)i * 1000);
        CHECK(p || !i);
        memset(p, 1, (size_t)i * 1000);
    }
    return 0;
}
