// free of unowned addresses: small integers, non-canonical ones, the ends of the address space.
// run: 1
// run: 8
// run: 10
// run: fff
// run: 1000
// run: 7fffffffffff
// run: 800000000000
// run: deadbeefdeadbeef
// run: deadbeefdeadbee0
// run: 8000000000000000
// run: ffff800000000000
// run: fffffffffffffff0
// run: ffffffffffffffff
// expect: signal ABRT
// stderr: toft: invalid free: free({q}): not a block of this allocator
// libc: skip glibc says it in other words or not at all
// twin: leaves them alone
// promise: 4
#include "common.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    void *q = (void *)strtoul(argv[1], NULL, 16);
    announce("q", q);
    void *p = malloc(64);
    MISUSE(free(launder(q));)
    free(p);
    return END;
}
