// TOFT_GUARDED=uninit: a read of a block of which nothing was written is named where it happens,
// with the stack of the allocation.
// env: TOFT_GUARDED=uninit
// env: TOFT_REPORT=full
// expect: signal ABRT
// stderr: toft: uninitialised read: read({q}): byte 8 of the {size}-byte block at {p} was never written (guarded block, live; call site {addr})
// stderr: toft:   called from   {re:/.*/uninit_read}+0x{re:[0-9a-f]+}{re:( build-id [0-9a-f]+)?}
// stderr: toft:   then          {re:/.*/uninit_read}+0x{re:[0-9a-f]+}{re:( build-id [0-9a-f]+)?}
// stderr: toft:   then          {re:/.*libc.*}+0x{re:[0-9a-f]+}{re:( build-id [0-9a-f]+)?}
// stderr: toft:   allocated at  {re:/.*/uninit_read}+0x{re:[0-9a-f]+}{re:( build-id [0-9a-f]+)?}
// stderr: toft:   then          {re:/.*/uninit_read}+0x{re:[0-9a-f]+}{re:( build-id [0-9a-f]+)?}
// stderr: toft:   then          {re:/.*libc.*}+0x{re:[0-9a-f]+}{re:( build-id [0-9a-f]+)?}
// stderr: toft:   process {n}, thread {n}; `toft explain` says where that is in the source, and what to do
// libc: skip it has no such option
// promise: 28
// musl: skip a static program has no libc that frames could be in
#include "common.h"

NOINLINE char *make(void)
{
    char *p = launder(malloc(64));
    NO_TAIL_CALL();
    return p;
}

NOINLINE int look(volatile char *p)
{
    int found = p[8];
    NO_TAIL_CALL();
    return found;
}

int main(void)
{
    char *p = make();
    CHECK(p);
    announce_block(p);
    announce("q", p + 8);
    return 77 + look(p);
}
