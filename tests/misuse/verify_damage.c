// A stray write into the library's own tables, which nothing but a chance of one in millions
// can make: toft_verify names what does not hold.
// expect: signal ABRT
// stderr: toft: damaged metadata: verify({slab}): not so: I3: remote but not live (small slab of {n}-byte slots, partition {n}; call site {addr})
// libc: skip it has no such function
// twin: writes nothing
// promise: 28
#include "damage.h"

int main(void)
{
    int (*verify)(void) = (int (*)(void))symbol("toft_verify");
    CHECK(verify);
    void *p = block_in_long_slab();
    for (int i = 0; i < 100000; i++)
        free(launder(malloc((size_t)i % 3000)));
    CHECK(verify() == 0);
    struct damage d = find_slab(p);
    announce("slab", d.slab);
    MISUSE(damage(&d);)
    CHECK(verify() == 0);
    free(p);
    return END;
}
