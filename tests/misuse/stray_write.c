// A write to the allocator's own tables, by the program's code: with TOFT_PKEY it faults and is
// named.
// env: TOFT_PKEY=1
// build: secure it has the doors
// expect: signal ABRT
// stderr: toft: stray access: write({p}): the allocator's own tables are there
// libc: skip it has no such option
// machine: pkeys it is about them
// twin: reads them
// promise: 1
#include "keyed.h"

int main(void)
{
    char *tables = keyed_page(NULL);
    CHECK(tables);
    announce("p", tables);
    free(launder(malloc(100)));
    CORRECT(CHECK(((volatile char *)launder(tables))[0] + 1);)
    MISUSE(((volatile char *)launder(tables))[0] = 1;)
    return END;
}
