// class: 18 Free a pointer into an aligned block
// sizes: 500 20000 262144
// variants: 64-by-16 64-by-64 4096-by-4096
// toft: caught inside
// secure: caught inside
#include "corpus.h"

static unsigned char *p, *q;
static size_t length;

static void prepare(void)
{
    size_t alignment = is("4096-by-4096") ? 4096 : 64;
    size_t in = is("64-by-16") ? 16 : alignment;
    length = size + in;
#ifdef __cplusplus
    p = (unsigned char *)::operator new(length, std::align_val_t(alignment));
#else
    p = aligned_alloc(alignment, (length / alignment + 1) * alignment);
#endif
    CHECK(p);
    fill(p, length, 1);
    q = p + in;
    announce_block(p);
    announce("q", q);
}

static void fault(void)
{
    give(q);
}

static void correct(void)
{
    give(take(size));
}

static enum verdict outcome(void)
{
    enum verdict verdict = of_the_heap(p, length);
#ifdef __cplusplus
    ::operator delete(launder(p), std::align_val_t(is("4096-by-4096") ? 4096 : 64));
#else
    give(p);
#endif
    return verdict;
}
