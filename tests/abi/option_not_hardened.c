// The hardened build says that it has no sampled blocks, and goes on without.
// build: hardened the default build has them
// env: TOFT_GUARDED=1
// stderr: toft: TOFT_GUARDED=1 is not for the hardened build; using 0
// libc: skip it knows no such option
#include "common.h"

int main(void)
{
    void *p = launder(malloc(100));
    CHECK(p);
    free(p);
    return 0;
}
