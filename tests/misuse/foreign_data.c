// free of an address in initialised data.
// expect: signal ABRT
// stderr: toft: invalid free: free({q}): not a block of this allocator
// libc: skip glibc says it in other words or not at all
// twin: frees a copy
// promise: 4
#include "common.h"

static char object[64] = "data";

int main(void)
{
    announce("q", launder(object));
    MISUSE(free(launder(object));)
    CORRECT(free(strdup(launder(object)));)
    return END;
}
