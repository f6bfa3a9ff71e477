// Reading a zero-size block faults.
// promise: 10
// expect: signal SEGV
// twin: asks for one byte
// libc: skip it has bytes there
#include "common.h"

int main(void)
{
    MISUSE(unsigned char *p = malloc(launder_size(0));)
    CORRECT(unsigned char *p = malloc(launder_size(1));)
    CHECK(p);
    (void)*(volatile unsigned char *)launder(p);
    free(p);
    return END;
}
