// TOFT_VERIFY=100: the same, found by the library itself within that number of allocations.
// env: TOFT_VERIFY=100
// expect: signal ABRT
// stderr: toft: damaged metadata: verify({slab}): not so: I3: remote but not live (small slab of {n}-byte slots, partition {n}; call site {addr})
// libc: skip it has no such option
// twin: writes nothing
// promise: 28
#include "damage.h"

int main(void)
{
    void *p = block_in_long_slab();
    for (int i = 0; i < 2000; i++)
        free(launder(malloc((size_t)i % 3000)));
    struct damage d = find_slab(p);
    announce("slab", d.slab);
    MISUSE(damage(&d);)
    for (int i = 0; i < 100; i++)
        free(launder(malloc(1000)));
    free(p);
    return END;
}
