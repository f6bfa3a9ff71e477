// class: 17 Free what is no block: stack, static data, code, a mapping, wild pointers
// sizes: 4096
// variants: stack stack-crafted static static-crafted constant code mapping mapping-crafted one wild non-canonical
// toft: caught no-block
// secure: caught no-block
#include "corpus.h"

static unsigned char in_data[8192] __attribute__((aligned(64)));
static const unsigned char constant[8192] __attribute__((aligned(64))) = {1};
static unsigned char *q;
static size_t length;

/* As headers of small blocks of glibc. */
static void craft(unsigned char *at)
{
    for (size_t i = 0; i + 8 <= 4096; i += 8)
        memcpy(at + i, "\x71\0\0\0\0\0\0", 8);
}

static void prepare(void)
{
    length = 4096;
    if (strncmp(variant, "static", 6) == 0) {
        q = in_data + 64;
    } else if (is("constant")) {
        q = (unsigned char *)constant + 64;
    } else if (is("code")) {
        q = (unsigned char *)(uintptr_t)&prepare;
        length = 16;
    } else if (strncmp(variant, "mapping", 7) == 0) {
        void *map = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(map != MAP_FAILED);
        q = (unsigned char *)map + (is("mapping-crafted") ? 64 : 0);
    } else if (is("one")) {
        q = (unsigned char *)1;
        length = 1;
    } else if (is("wild")) {
        /* Where nothing is mapped, in the middle of the address space. */
        q = (unsigned char *)0x2a2a2a2a2a00;
    } else if (is("non-canonical")) {
        q = (unsigned char *)0x4141414141414140;
    }
    if (is("static-crafted") || is("mapping-crafted"))
        craft(q - 64);
    give(take(100));
}

static void fault(void)
{
    unsigned char here[8192] __attribute__((aligned(64)));
    if (strncmp(variant, "stack", 5) == 0) {
        memset(here, 0, sizeof here);
        if (is("stack-crafted"))
            craft(here);
        q = (unsigned char *)launder(here + 64);
    }
    announce("q", q);
    give(q);
}

static void correct(void)
{
    give(take(size));
}

static enum verdict outcome(void)
{
    return of_the_heap(q, length);
}
