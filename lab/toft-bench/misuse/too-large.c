// class: 30 Ask for a size that wraps round, and be given a block
// sizes: 100
// variants: largest minus-8 minus-4096 half realloc-minus-8 memalign-minus-8
// toft: prevented
// secure: prevented
#include "corpus.h"

static unsigned char *p;
static void *given;

static void prepare(void)
{
    p = (unsigned char *)malloc(size);
    CHECK(p);
    fill(p, size, 1);
}

#ifdef __cplusplus
static void *ask(size_t n)
{
    try {
        return ::operator new(n);
    } catch (const std::bad_alloc &) {
        return NULL;
    }
}
#else
static void *ask(size_t n)
{
    return malloc(n);
}
#endif

static void *ask_for(size_t less)
{
    /* Behind the compiler's back, which knows that no block is so large. */
    __asm__ volatile("" : "+r"(less));
    if (is("realloc-minus-8"))
        return realloc(p, (size_t)0 - less);
    if (is("memalign-minus-8"))
        return memalign(64, (size_t)0 - less);
    return ask((size_t)0 - less);
}

static void fault(void)
{
    given = launder(ask_for(is("largest") ? 1 : is("minus-4096") ? 4096 : is("half") ? (size_t)1 << 63 : 8));
}

static void correct(void)
{
    give(take(size));
}

static enum verdict outcome(void)
{
    return given || !filled(p, size, 1) ? MISSED : of_the_heap(p, size);
}
