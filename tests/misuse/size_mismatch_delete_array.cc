// A sized delete of an array, with a size of another class.
// build: secure the default one believes it
// expect: signal ABRT
// stderr: toft: size mismatch: operator delete({p}): this {size}-byte block is not one of 16 bytes (small slab, slot {n}, partition {n}; call site {addr})
// twin: deletes it with its own
// promise: 5
#include "common.h"
#include <new>

int main()
{
    void *p = launder(::operator new[](500));
    announce_block(p);
    CORRECT(::operator delete[](p, 500);)
    MISUSE(::operator delete[](p, 16);)
    return END;
}
