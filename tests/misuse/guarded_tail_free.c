// A function that ends in a jump to free has no frame: the free is at the call of that function,
// not at what an earlier call left on the stack.
// env: TOFT_GUARDED=1
// env: TOFT_REPORT=full
// expect: signal ABRT
// stderr: toft: use after free: read({p}): 0 bytes inside the {size}-byte block at {p} (guarded block, free; call site {addr})
// stderr: toft:   called from   {re:/.*/guarded_tail_free}+0x{re:[0-9a-f]+}{re:( build-id [0-9a-f]+)?}
// stderr: toft:   allocated at  {re:/.*/guarded_tail_free}+0x{re:[0-9a-f]+}{re:( build-id [0-9a-f]+)?}
// stderr: toft:   freed at      {re:/.*/guarded_tail_free}+{f}{re:( build-id [0-9a-f]+)?}
// stderr: toft:   process {n}, thread {n}; `toft explain` says where that is in the source, and what to do
// libc: skip it has no such option
// promise: 28
// flags: -O2 -fomit-frame-pointer
// musl: skip a static program has no libc that frames could be in
#include "common.h"

extern const char __executable_start[];

static const char *after_call;

NOINLINE char *take(void)
{
    char *p = launder(malloc(64));
    NO_TAIL_CALL();
    return p;
}

NOINLINE void drop(char *p)
{
    after_call = __builtin_return_address(0);
    free(p);
}

int main(void)
{
    char *p = take();
    CHECK(p);
    drop(p);
    p = take();
    announce_block(p);
    drop(p);
    announce("f", (void *)(after_call - __executable_start));
    return 77 + *(volatile char *)p;
}
