// A sized and aligned delete, with a size of another class.
// build: secure the default one believes it
// expect: signal ABRT
// stderr: toft: size mismatch: operator delete({p}): this {size}-byte block is not one of 1000 bytes (small slab, slot {n}, partition {n}; call site {addr})
// twin: deletes it with its own
// promise: 5
#include "common.h"
#include <new>

int main()
{
    void *p = launder(::operator new(100, std::align_val_t{64}));
    announce_block(p);
    CORRECT(::operator delete(p, 100, std::align_val_t{64});)
    MISUSE(::operator delete(p, 1000, std::align_val_t{64});)
    return END;
}
