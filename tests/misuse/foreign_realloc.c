// realloc of unowned addresses.
// run: stack
// run: 1
// run: 7fffffffffff
// run: deadbeefdeadbee0
// expect: signal ABRT
// stderr: toft: invalid free: realloc({q}): not a block of this allocator
// libc: skip glibc says it in other words or not at all
// twin: leaves them alone
// promise: 4
#include "common.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    char local[64];
    void *q = launder(argv[1][0] == 's' ? local : (void *)strtoul(argv[1], NULL, 16));
    announce("q", q);
    MISUSE(CHECK(realloc(q, 100));)
    CORRECT(CHECK(q);)
    return END;
}
