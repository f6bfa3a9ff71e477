// build: secure walls
// A large block of whole pages begins behind a page that faults.
// promise: 8 9
// expect: signal SEGV
// twin: writes the first byte
// libc: skip it has its own data there
#include "common.h"

int main(void)
{
    unsigned char *p = malloc(64 * page_size());
    CHECK(p);
    CORRECT(((volatile unsigned char *)launder(p))[0] = 1;)
    MISUSE(((volatile unsigned char *)launder(p))[-1] = 1;)
    free(p);
    return END;
}
