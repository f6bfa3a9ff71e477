// build: secure walls
// Large blocks of any size and alignment: aligned, usable to the last byte, ended within 16 bytes
// by a page that faults where nothing else was asked for, preceded by one. They keep what is in
// them through any change of size, and new bytes are zero where calloc says so.
// timeout: 120
// promise: 7 8 9 21
// libc: skip it has no walls
#include "faults.h"

static size_t to_fault(unsigned char *p)
{
    return sweep(p, 1, 1 << 20);
}

int main(void)
{
    catch_faults();
    struct rng r = {7};
    size_t page = page_size();
    for (int i = 0; i < 600; i++) {
        size_t size = 131073 + rng_below(&r, 1 << (10 + i % 12));
        unsigned char *p = i % 3 ? malloc(size) : calloc(1, size);
        CHECK(p && (uintptr_t)p % 16 == 0 && malloc_usable_size(p) == size);
        CHECK(to_fault(p + size) == (16 - size % 16) % 16);
        CHECK(sweep(p, -1, 2 * page) < page);
        if (i % 3 == 0)
            for (size_t at = 0; at < size; at += 61)
                CHECK(p[at] == 0);
        fill(p, size, (uint64_t)i);
        for (int step = 0; step < 6; step++) {
            size_t next = 131073 + rng_below(&r, 1 << (10 + rng_below(&r, 12)));
            p = realloc(p, next);
            CHECK(p && (uintptr_t)p % 16 == 0 && malloc_usable_size(p) == next);
            CHECK(filled(p, size < next ? size : next, (uint64_t)i));
            CHECK(to_fault(p + next) < page && sweep(p, -1, 2 * page) < page);
            size = next;
            fill(p, size, (uint64_t)i);
        }
        if (i % 2) {
            /* Out of the large blocks and in again. */
            p = realloc(p, 1000);
            CHECK(p && filled(p, 1000, (uint64_t)i));
            p = realloc(p, size);
            CHECK(p && filled(p, 1000, (uint64_t)i));
        }
        free(p);
        CHECK(faults(p));
    }
    for (size_t align = 16; align <= 8 << 20; align *= 2)
        for (int i = 0; i < 8; i++) {
            size_t size = 131073 + rng_below(&r, 500000);
            unsigned char *p = aligned_alloc(align, size);
            CHECK(p && (uintptr_t)p % align == 0);
            CHECK(to_fault(p + size) < (align < page ? align : page));
            fill(p, size, align);
            CHECK(filled(p, size, align));
            CHECK(sweep(p, -1, 2 * page) < page);
            free(p);
            CHECK(faults(p) && faults(p + size - 1));
        }
    return 0;
}
