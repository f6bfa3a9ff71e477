// build: secure walls
// The old address of a large block that realloc has moved faults.
// promise: 12
// expect: signal SEGV
// twin: uses the new address
// libc: skip it may not move
#include "common.h"

int main(void)
{
    unsigned char *p = malloc(300000);
    CHECK(p);
    p[0] = 7;
    unsigned char *q = realloc(p, 30000000);
    CHECK(q && q[0] == 7);
    CORRECT(CHECK(*(volatile unsigned char *)launder(q) == 7);)
    MISUSE(CHECK(q != p); (void)*(volatile unsigned char *)launder(p);)
    free(q);
    return END;
}
