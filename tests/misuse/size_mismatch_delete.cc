// A sized delete with another size: an object deleted as another type.
// build: secure the default one believes it
// expect: signal ABRT
// stderr: toft: size mismatch: operator delete({p}): this {size}-byte block is not one of 8 bytes (small slab, slot {n}, partition {n}; call site {addr})
// twin: deletes it as what it is
// promise: 5
#include "common.h"
#include <new>

struct Wide {
    char bytes[200];
};

int main()
{
    Wide *p = (Wide *)launder(new Wide);
    announce_block(p);
    CORRECT(delete p;)
    MISUSE(delete (long *)launder(p);)
    return END;
}
