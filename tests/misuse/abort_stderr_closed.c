// With standard error closed the program still dies by SIGABRT, and the report goes into no file
// that took its number.
// expect: signal ABRT
// libc: skip glibc says it in other words or not at all
// twin: frees it once
// promise: 28
#include "common.h"

int main(void)
{
    void *p = launder(malloc(64));
    CHECK(p);
    close(2);
    free(p);
    MISUSE(free(launder(p));)
    return END;
}
