// With TOFT_FILL=free another thread's freed block holds the pattern: a byte that was written since
// is named by toft_verify, called by any thread, while that thread goes on. Of a medium block as of
// a small one.
// flags: -pthread
// env: TOFT_FILL=free
// run: 64
// run: 5000
// expect: signal ABRT
// stderr: toft: write after free: verify({p}): byte 40 of this free {size}-byte block was overwritten ({re:small|medium} slab, slot {n}, partition {n}; call site {addr})
// libc: skip it has no such function
// twin: writes before it frees
// promise: 28
// build: default the secure build finds it without a pattern
// aarch64: skip qemu cannot read another thread's blocks by a system call
#include "common.h"

static char *block;
static size_t size;
static pthread_barrier_t barrier;

static void *owner(void *arg)
{
    block = launder(malloc(size));
    char *keep = launder(malloc(size));
    block[40] = 1;
    announce_block(block);
    free(launder(block));
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    free(keep);
    return arg;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size = strtoul(argv[1], NULL, 10);
    int (*verify)(void) = (int (*)(void))symbol("toft_verify");
    CHECK(verify);
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    pthread_t thread = spawn(owner, NULL);
    pthread_barrier_wait(&barrier);
    CHECK(verify() == 0);
    MISUSE(((volatile char *)launder(block))[40] = 7;)
    CHECK(verify() == 0);
    pthread_barrier_wait(&barrier);
    join(thread);
    return END;
}
