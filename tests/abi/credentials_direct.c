// A program changes its users by system calls that the library does not see, as Go and static
// programs do. The library's thread compares its own with those of the first thread when it wakes,
// and ends.
// flags: -pthread
// timeout: 300
// promise: 31
// libc: skip the reclaimer is waited for
// aarch64: skip qemu has no such lists of threads
#include "tasks.h"
#include <sys/syscall.h>

/* Not through the C library's `syscall`, which is the library's. */
static long raw(long number, long a, long b, long c)
{
#ifdef __x86_64__
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
#else
    return syscall(number, a, b, c);
#endif
}

int main(void)
{
    enum { OTHER = 65534, COUNT = 16000 };
    static char *block[COUNT];
    grow_until_reclaimer();
    if (geteuid() != 0)
        return 0; /* nothing can be changed */
    int before = reclaimer();
    CHECK(raw(SYS_setresgid, OTHER, OTHER, OTHER) == 0 && raw(SYS_setresuid, OTHER, OTHER, OTHER) == 0);
    /* The program goes on, so the thread has something to do all the time. */
    double end = now() + 300;
    while (before == reclaimer() || with_other_ids() != 0) {
        CHECK(now() < end); /* waits for the end of the thread that was root's */
        for (int i = 0; i < COUNT; i++)
            CHECK((block[i] = launder(malloc(2000))));
        for (int i = 0; i < COUNT; i++)
            free(block[i]);
    }
    grow_until_reclaimer();
    CHECK(with_other_ids() == 0);
    return 0;
}
