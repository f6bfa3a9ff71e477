// free of addresses far from a live block, where no block ever was: inside the reservation or
// beyond it.
// run: 4
// run: -4
// run: 64
// run: 1024
// run: -1024
// run: 16384
// run: -16384
// expect: signal ABRT
// stderr: toft: invalid free: free({q}): not a block of this allocator
// libc: skip glibc says it in other words or not at all
// twin: frees the block itself
// promise: 4
#include "common.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    char *p = malloc(64);
    CHECK(p);
    long away = strtol(argv[1], NULL, 10);
    void *q = launder((void *)((uintptr_t)p + (uintptr_t)(away << 30)));
    announce("q", q);
    MISUSE(free(q);)
    free(p);
    return END;
}
