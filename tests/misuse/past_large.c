// free of the end of a large block, where its guard is.
// expect: signal ABRT
// stderr: toft: invalid free: free({q}): {re:.+}
// libc: skip glibc says it in other words or not at all
// twin: frees the block itself
// promise: 4
#include "common.h"

int main(void)
{
    char *p = launder(malloc(300000));
    CHECK(p);
    char *q = p + malloc_usable_size(p);
    announce("q", q);
    MISUSE(free(launder(q));)
    free(p);
    return END;
}
