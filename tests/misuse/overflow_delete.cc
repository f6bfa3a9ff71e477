// A byte behind what new has given is written; delete sees it.
// build: secure the default one does not look
// expect: signal ABRT
// stderr: toft: heap overflow: operator delete({p}): byte 0 behind this {size}-byte block was overwritten (small slab, slot {n}, partition {n}; call site {addr})
// twin: writes the last byte
// promise: 7
#include "common.h"

int main()
{
    unsigned char *p = (unsigned char *)launder(new unsigned char[37]);
    announce_block(p);
    CORRECT(p[36] = 1;)
    MISUSE(p[37] ^= 0x5A;)
    delete[] (unsigned char *)launder(p);
    return END;
}
