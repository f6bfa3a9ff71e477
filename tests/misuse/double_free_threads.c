// Thread A allocates a block, and it is freed twice, by A or other threads. In sequence: named at
// the second free. Also where B frees several blocks of the slab, whose frees it publishes later.
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
// case: double_free_gathered_then_a
// case: double_free_gathered_then_b
// case: double_free_gathered_then_c
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

enum { BEFORE = 10 };
static void *before[BEFORE];

/* Frees blocks of the same slab, and then the block. `then` runs while this thread lives. */
struct gathered {
    void *p;
    void (*then)(void *);
    pthread_barrier_t freed, done;
};

HELPER void *gather(void *argument)
{
    struct gathered *g = argument;
    for (int i = 0; i < BEFORE; i++)
        free(before[i]);
    free(launder(g->p));
    if (g->then)
        g->then(g->p);
    pthread_barrier_wait(&g->freed);
    pthread_barrier_wait(&g->done);
    return NULL;
}

HELPER void gather_and(void *p, void (*in_b)(void *), void (*in_a)(void *))
{
    struct gathered g = {.p = p, .then = in_b};
    for (int i = 0; i < BEFORE; i++)
        CHECK((before[i] = malloc(malloc_usable_size(p))));
    pthread_barrier_init(&g.freed, NULL, 2);
    pthread_barrier_init(&g.done, NULL, 2);
    pthread_t b = spawn(gather, &g);
    pthread_barrier_wait(&g.freed);
    if (in_a)
        in_a(p);
    pthread_barrier_wait(&g.done);
    join(b);
}

HELPER void free_again(void *p)
{
    (void)p;
    MISUSE(free(launder(p));)
}

HELPER void free_in_another(void *p)
{
    (void)p;
    MISUSE(join(spawn(freer, p));)
}

HELPER void double_free_gathered_then_a(void *p)
{
    gather_and(p, NULL, free_again);
}

HELPER void double_free_gathered_then_b(void *p)
{
    gather_and(p, free_again, NULL);
}

HELPER void double_free_gathered_then_c(void *p)
{
    gather_and(p, NULL, free_in_another);
}

int main(int argc, char **argv)
{
    void *p = announced_block(argc, argv);
    CASE(p);
    return END;
}
