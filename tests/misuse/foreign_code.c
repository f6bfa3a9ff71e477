// free of the address of a function.
// expect: signal ABRT
// stderr: toft: invalid free: free({q}): not a block of this allocator
// libc: skip glibc says it in other words or not at all
// twin: frees a null pointer
// promise: 4
#include "common.h"

int main(void)
{
    announce("q", launder((void *)main));
    MISUSE(free(launder((void *)main));)
    CORRECT(free(NULL);)
    return END;
}
