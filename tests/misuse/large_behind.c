// build: secure walls
// The byte behind a large block whose size is a multiple of 16 faults; the last one does not.
// promise: 7 9
// expect: signal SEGV
// twin: writes the last byte
// libc: skip it has no guard there
#include "common.h"

int main(void)
{
    size_t size = 200000;
    unsigned char *p = malloc(size);
    CHECK(p);
    CORRECT(((volatile unsigned char *)launder(p))[size - 1] = 1;)
    MISUSE(((volatile unsigned char *)launder(p))[size] = 1;)
    free(p);
    return END;
}
