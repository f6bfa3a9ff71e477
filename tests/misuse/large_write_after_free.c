// build: secure walls
// Writing to a large block that was freed faults at once.
// promise: 12
// expect: signal SEGV
// twin: writes before it frees
// libc: skip its threshold for mappings moves
#include "common.h"

int main(void)
{
    unsigned char *p = malloc(300000);
    CHECK(p);
    CORRECT(*(volatile unsigned char *)launder(p + 299999) = 7;)
    free(p);
    MISUSE(*(volatile unsigned char *)launder(p + 299999) = 7;)
    return END;
}
