// build: secure walls
// Reading a large block that was freed faults, while others come and go.
// promise: 12
// expect: signal SEGV
// twin: reads before it frees
// libc: skip its threshold for mappings moves
#include "common.h"

int main(void)
{
    unsigned char *p = malloc(300000);
    CHECK(p);
    memset(p, 7, 300000);
    for (int i = 0; i < 100; i++)
        free(launder(malloc(300000)));
    CORRECT(CHECK(*(volatile unsigned char *)launder(p + 1000) == 7);)
    free(p);
    for (int i = 0; i < 100; i++)
        free(launder(malloc(300000)));
    MISUSE((void)*(volatile unsigned char *)launder(p + 1000);)
    return END;
}
