// The secure build says what it does in place of TOFT_FILL, and goes on.
// build: full the light build does not know TOFT_FILL
// env: TOFT_FILL=alloc,free
// stderr: toft: TOFT_FILL=alloc,free changes nothing: the secure build clears what is freed, and new memory is zero
// libc: skip it knows no such option
#include "common.h"

int main(void)
{
    char *p = launder(malloc(100));
    CHECK(p && p[0] == 0 && p[99] == 0);
    free(p);
    return 0;
}
