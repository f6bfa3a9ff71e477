// class: 32 Write or read past the end of a block by memcpy, memmove or memset
// sizes: 100 1000 200000
// languages: c
// variants: memcpy-write memcpy-read memmove-write memset-write
// toft: missed
// toft size=200000: caught SIGSEGV
// secure: late overflow-of-one
// secure variant=memcpy-read: missed
// secure size=200000: caught SIGSEGV
#include "corpus.h"

/* Calls that the compiler does not know, so that they go where the loader says. */
static void *(*volatile copy)(void *, const void *, size_t) = memcpy;
static void *(*volatile move)(void *, const void *, size_t) = memmove;
static void *(*volatile set)(void *, int, size_t) = memset;

static unsigned char *p, *buffer;
static size_t usable, leaked;

static void prepare(void)
{
    take_row();
    p = row[low];
    usable = usable_in_row[low];
    void *map = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    buffer = (unsigned char *)map;
    announce_block(p);
}

static void act(size_t n)
{
    if (is("memcpy-write"))
        copy(p, buffer, n);
    else if (is("memcpy-read"))
        copy(buffer, p, n);
    else if (is("memmove-write"))
        move(p, buffer, n);
    else
        set(p, 0, n);
}

/* Over the whole gap to the next block, and 16 bytes of that. */
static void fault(void)
{
    size_t n = (size_t)(row[low + 1] - p) + 16;
    if (n > 2 * size + 64)
        n = usable + 16;
    act(n);
    for (size_t i = usable; i < n; i++)
        leaked += buffer[i] != 0;
}

static void correct(void)
{
    act(size);
}

static enum verdict outcome(void)
{
    give(p);
    enum verdict verdict = of_the_row(p);
    return leaked ? MISSED : verdict;
}
