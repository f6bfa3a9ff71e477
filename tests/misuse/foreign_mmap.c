// free of a mapping that the program made itself.
// expect: signal ABRT
// stderr: toft: invalid free: free({q}): not a block of this allocator
// libc: skip glibc says it in other words or not at all
// twin: unmaps it
// promise: 4
#include "common.h"

int main(void)
{
    void *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    announce("q", p);
    MISUSE(free(launder(p));)
    CORRECT(CHECK(munmap(p, 1 << 20) == 0);)
    return END;
}
