// The main thread overflows a block that is never freed, and ends by pthread_exit. The process ends
// when its last thread does, which has no heap then. With TOFT_VERIFY=exit the overflow is
// reported, and a call of toft_verify reports it before that.
// run: alone
// run: first
// run: asks
// env: TOFT_VERIFY=exit
// build: secure the default one does not look
// expect: signal ABRT
// stderr: toft: heap overflow: verify({p}): byte 0 behind this {size}-byte block was overwritten (small slab, slot {n}, partition {n}; call site {addr})
// libc: skip it has no such option
// twin: stays within the block
// promise: 12
#include "common.h"

static pthread_t main_thread;

static void ask(void)
{
    int (*verify)(void) = (int (*)(void))symbol("toft_verify");
    CHECK(verify);
    CHECK(verify() == 0);
    MISUSE(_exit(9);)
}

static void *last(void *unused)
{
    CHECK(pthread_join(main_thread, NULL) == 0);
    return unused;
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    unsigned char *p = launder(malloc(100));
    announce_block(p);
    p[99] = 1;
    MISUSE(p[100] = 1;)
    if (!strcmp(argv[1], "asks"))
        CHECK(atexit(ask) == 0);
    if (!strcmp(argv[1], "first")) {
        pthread_t thread;
        main_thread = pthread_self();
        CHECK(pthread_create(&thread, NULL, last, NULL) == 0);
    }
    pthread_exit(NULL);
}
