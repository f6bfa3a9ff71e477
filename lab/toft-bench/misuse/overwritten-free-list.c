// class: 28 Overwrite every freed block with an address, and be given that address
// sizes: 24 64 1000
// variants: plain masked
// toft: prevented
// secure: caught written-to-one
// light: prevented
#include "corpus.h"

enum { BLOCKS = 2000, AREA = 1 << 20 };
static unsigned char *block[BLOCKS], *target;
static int reached;

static void prepare(void)
{
    void *map = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    target = (unsigned char *)map;
    for (int i = 0; i < BLOCKS; i++)
        block[i] = take(size);
    for (int i = 0; i < BLOCKS; i++)
        give(block[i]);
}

static void use_all(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        unsigned char *p = take(size);
        reached |= p >= target && p < target + AREA;
    }
}

static void fault(void)
{
    uintptr_t aim = (uintptr_t)target + AREA / 2;
    for (int i = 0; i < BLOCKS; i++)
        for (size_t k = 0; k + 8 <= size; k += 8) {
            /* glibc masks the addresses in its lists so. */
            uintptr_t word = is("masked") ? aim ^ ((uintptr_t)(block[i] + k) >> 12) : aim;
            memcpy(block[i] + k, &word, sizeof word);
        }
    use_all();
}

static void correct(void)
{
    use_all();
}

static enum verdict outcome(void)
{
    if (reached)
        return MISSED;
    for (size_t i = 0; i < AREA; i++)
        if (target[i])
            return MISSED;
    return of_the_heap(target, AREA);
}
