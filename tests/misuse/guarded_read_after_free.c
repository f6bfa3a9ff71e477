// A read of a sampled block that was freed is a fault at that instruction, named with the free.
// env: TOFT_GUARDED=1
// env: TOFT_REPORT=full
// expect: signal ABRT
// stderr: toft: use after free: read({q}): 8 bytes inside the {size}-byte block at {p} (guarded block, free; call site {addr})
// stderr: toft:   called from   {re:/.*/guarded_read_after_free}+0x{re:[0-9a-f]+}{re:( build-id [0-9a-f]+)?}
// stderr: toft:   then          {re:/.*/guarded_read_after_free}+0x{re:[0-9a-f]+}{re:( build-id [0-9a-f]+)?}
// stderr: toft:   then          {re:/.*libc.*}+0x{re:[0-9a-f]+}{re:( build-id [0-9a-f]+)?}
// stderr: toft:   allocated at  {re:/.*/guarded_read_after_free}+0x{re:[0-9a-f]+}{re:( build-id [0-9a-f]+)?}
// stderr: toft:   then          {re:/.*/guarded_read_after_free}+0x{re:[0-9a-f]+}{re:( build-id [0-9a-f]+)?}
// stderr: toft:   then          {re:/.*libc.*}+0x{re:[0-9a-f]+}{re:( build-id [0-9a-f]+)?}
// stderr: toft:   freed at      {re:/.*/guarded_read_after_free}+0x{re:[0-9a-f]+}{re:( build-id [0-9a-f]+)?}
// stderr: toft:   then          {re:/.*/guarded_read_after_free}+0x{re:[0-9a-f]+}{re:( build-id [0-9a-f]+)?}
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

NOINLINE void drop(char *p)
{
    free(launder(p));
    NO_TAIL_CALL();
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
    drop(p);
    return 77 + look(p);
}
