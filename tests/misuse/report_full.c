// TOFT_REPORT=full: who called, by frame pointers, the call site, and whose report it is.
// env: TOFT_REPORT=full
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// stderr: toft:   called from   {re:/.*/report_full}+0x{re:[0-9a-f]+}{re:( build-id [0-9a-f]+)?}
// stderr: toft:   then          {re:/.*/report_full}+0x{re:[0-9a-f]+}{re:( build-id [0-9a-f]+)?}
// stderr: toft:   then          {re:/.*libc.*}+0x{re:[0-9a-f]+}{re:( build-id [0-9a-f]+)?}
// stderr: toft:   call site     {re:/.*/report_full}+0x{re:[0-9a-f]+}{re:( build-id [0-9a-f]+)?}
// stderr: toft:   process {n}, thread {n}; `toft explain` says where that is in the source, and what to do
// libc: skip it has no such option
// promise: 28
// musl: skip a static program has no libc that frames could be in
#include "common.h"

NOINLINE void again(void *p)
{
    free(launder(p));
    NO_TAIL_CALL();
}

int main(void)
{
    void *p = launder(malloc(64));
    announce_block(p);
    free(p);
    again(p);
    return 77;
}
