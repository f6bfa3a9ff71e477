// Unowned addresses, given to other calls than free.
// run: stack
// run: 1
// run: 7fffffffffff
// run: deadbeefdeadbee0
// expect: signal ABRT
// libc: skip glibc says it in other words or not at all
// twin: leaves them alone
// promise: 4
// case: foreign_malloc_usable_size -DCALL=malloc_usable_size(q)<5
// stderr: toft: invalid free: malloc_usable_size({q}): not a block of this allocator
// case: foreign_realloc -DCALL=realloc(q,100)
// stderr: toft: invalid free: realloc({q}): not a block of this allocator
#include "common.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    char local[64];
    void *q = launder(argv[1][0] == 's' ? local : (void *)strtoul(argv[1], NULL, 16));
    announce("q", q);
    MISUSE(CHECK(CALL);)
    CORRECT(CHECK(q);)
    return END;
}
