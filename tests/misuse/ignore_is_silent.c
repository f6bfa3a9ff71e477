// build: default the secure one is never silent
// TOFT_ON_MISUSE=ignore: every bad call is ignored, in silence.
// env: TOFT_ON_MISUSE=ignore
// libc: skip it has no such option
// promise: 28
#include "common.h"

int main(void)
{
    char *p = launder(malloc(64));
    free(p + 8);
    free(p);
    free(launder(p));
    CHECK(!realloc(launder(p), 100) && errno == EINVAL);
    void *q = malloc(64);
    CHECK(q);
    free(q);
    return 0;
}
