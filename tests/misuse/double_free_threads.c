// Thread A allocates a block, and it is freed twice, by A or other threads. In sequence: named at
// the second free.
// flags: -pthread
// run: 64
// run: 5000
// run: 300000
// expect: signal ABRT
// stderr: toft: double free: free({p}): this {size}-byte block is already free ({re:(small|medium) slab, slot [0-9]+|large block}, partition {n}; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: frees once
// promise: 4 30
// case: double_free_a_then_b
// case: double_free_b_then_a
// case: double_free_b_then_c
// case: double_free_b_twice
#include "common.h"

HELPER void *freer(void *p)
{
    free(launder(p));
    return NULL;
}

HELPER void *twice(void *p)
{
    free(launder(p));
    MISUSE(free(launder(p));)
    return NULL;
}

HELPER void double_free_a_then_b(void *p)
{
    free(p);
    MISUSE(join(spawn(freer, p));)
}

HELPER void double_free_b_then_a(void *p)
{
    join(spawn(freer, p));
    MISUSE(free(launder(p));)
}

HELPER void double_free_b_then_c(void *p)
{
    join(spawn(freer, p));
    MISUSE(join(spawn(freer, p));)
}

HELPER void double_free_b_twice(void *p)
{
    join(spawn(twice, p));
}

int main(int argc, char **argv)
{
    void *p = announced_block(argc, argv);
    CASE(p);
    return END;
}
