// free of an address on the stack.
// expect: signal ABRT
// stderr: toft: invalid free: free({q}): not a block of this allocator
// libc: skip glibc says it in other words or not at all
// twin: frees the heap block only
// promise: 4
#include "common.h"

int main(void)
{
    char *heap = malloc(100), local[100];
    CHECK(heap);
    announce("q", launder(local));
    MISUSE(free(launder(local));)
    free(heap);
    return END;
}
