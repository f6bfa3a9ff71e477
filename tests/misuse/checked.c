// Copies and fills that go beyond a block, or into a free one, after some that do not.
// checked: what is tested
// expect: signal ABRT
// libc: skip the C library does not look
// twin: stays within the block
// promise: 28
// case: checked_bzero
// One byte too many.
// stderr: toft: heap overflow: bzero({p}): writes 65 bytes from byte 0 on of the 64-byte block at {p} (small slab, slot {n}, partition {n}, live; call site {addr})
// case: checked_memcpy
// Writes beyond the end of a block, from its middle.
// stderr: toft: heap overflow: memcpy({q}): writes 25 bytes from byte 40 on of the 64-byte block at {p} (small slab, slot {n}, partition {n}, live; call site {addr})
// case: checked_memcpy_read
// Reads beyond the end of a block.
// stderr: toft: heap overflow: memcpy({q}): reads 25 bytes from byte 40 on of the 64-byte block at {p} (small slab, slot {n}, partition {n}, live; call site {addr})
// case: checked_memmove
// Beyond the end of a large block.
// stderr: toft: heap overflow: memmove({r}): reads {large} bytes from byte 1 on of the {large}-byte block at {big} (large block, partition {n}, live; call site {addr})
// case: checked_memset
// Of a block that is free.
// stderr: toft: use after free: memset({q}): writes 4 bytes from byte 40 on of the 64-byte block at {p} (small slab, slot {n}, partition {n}, free; call site {addr})
#include "common.h"

static char from[100];
static char *p, *big;
static size_t large;

HELPER void checked_bzero(void)
{
    bzero(launder(p), launder_size(65));
}

HELPER void checked_memcpy(void)
{
    memcpy(p + 40, from, 25);
}

HELPER void checked_memcpy_read(void)
{
    memcpy(from, p + 40, 25);
}

HELPER void checked_memmove(void)
{
    memmove(big, big + 1, launder_size(large));
}

HELPER void checked_memset(void)
{
    free(p);
    memset(launder(p + 40), 1, 4);
}

int main(void)
{
    p = launder(malloc(64));
    big = launder(malloc(300000));
    CHECK(p && big);
    large = malloc_usable_size(big);
    announce("p", p);
    announce("q", p + 40);
    announce("big", big);
    announce("r", big + 1);
    announce_number("large", large);
    memcpy(p + 40, from, launder_size(24));
    memcpy(from, p + 40, launder_size(24));
    memmove(big, big + 1, launder_size(large - 1));
    memset(p, 1, launder_size(64));
    bzero(p, launder_size(64));
    MISUSE(CASE();)
    return END;
}
