// Pages of small free blocks, as in write_after_free_gone.c. Malloc writes to the page before
// it looks: what was written stays to be found, and what the block was is still known.
// build: full the light one does not clear what is freed
// run: 100 50
// run: 100 0
// run: 500 499
// run: 900 17
// expect: signal ABRT
// stderr: toft: write after free: malloc({p}): byte {place} of this free {size}-byte block was overwritten (small slab, slot {n}, partition {n}; call site {addr})
// libc: skip it looks at nothing
// twin: reads only
// promise: 11 12
#include "write_after_free_gone.c"
