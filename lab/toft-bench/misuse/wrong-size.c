// class: 22 Free a block with a wrong size
// sizes: 24 100 1000 5000 262144
// variants: too-small too-large one-less one-more
// toft: prevented
// secure: caught size
#include "corpus.h"

static unsigned char *p;
static size_t wrong;

#ifdef __cplusplus
static void give_sized(size_t n)
{
    ::operator delete(launder(p), n);
}
#else
static void (*free_sized_call)(void *, size_t);

static void give_sized(size_t n)
{
    free_sized_call(launder(p), n);
}
#endif

static void prepare(void)
{
#ifndef __cplusplus
    /* Not every C library has it. */
    *(void **)&free_sized_call = dlsym(RTLD_DEFAULT, "free_sized");
    if (!free_sized_call)
        _exit(NO_SUCH_CALL);
    call = "free_sized";
#endif
    p = take(size);
    if (is("one-less"))
        wrong = size - 1;
    else if (is("one-more"))
        wrong = size + 1;
    else
        wrong = is("too-small") ? size / 3 : 4 * size + 64;
    announce_block(p);
}

static void fault(void)
{
    give_sized(wrong);
}

static void correct(void)
{
    give_sized(size);
}

/* One that was put where others of the wrong size are lies over its neighbours when it comes back. */
static enum verdict outcome(void)
{
    static unsigned char *block[512];
    size_t count = as_many(wrong, 512);
    for (size_t i = 0; i < count; i++) {
        block[i] = take(wrong);
        if (block[i] == p && malloc_usable_size(p) < wrong)
            return MISSED;
    }
    for (size_t i = 0; i < count; i++)
        give(block[i]);
    return of_the_heap(NULL, 0);
}
