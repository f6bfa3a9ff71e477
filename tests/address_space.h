/* Mappings that fill the address space. */
#ifndef TOFT_TESTS_ADDRESS_SPACE_H
#define TOFT_TESTS_ADDRESS_SPACE_H

#include "common.h"

enum { MAPPINGS = 100000 };
static struct {
    char *at;
    size_t size;
} foreign[MAPPINGS];
static size_t foreign_count;

HELPER void take_everything(void)
{
    for (size_t size = (size_t)1 << 46; size >= page_size(); size /= 2)
        while (foreign_count < MAPPINGS) {
            char *at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (at == MAP_FAILED)
                break;
            foreign[foreign_count].at = at;
            foreign[foreign_count++].size = size;
        }
    CHECK(foreign_count < MAPPINGS);
}

HELPER void give_everything_back(void)
{
    for (; foreign_count; foreign_count--) {
        size_t size = foreign[foreign_count - 1].size;
        CHECK(size == 0 || munmap(foreign[foreign_count - 1].at, size) == 0);
    }
}

/* Unmaps a range of those mappings, which are the program's no more. */
HELPER void make_hole(char *at, size_t size)
{
    size_t covered = 0, count = foreign_count;
    for (size_t i = 0; i < count; i++) {
        char *first = foreign[i].at, *end = first + foreign[i].size;
        if (end <= at || at + size <= first)
            continue;
        char *from = first < at ? at : first, *to = end < at + size ? end : at + size;
        covered += (size_t)(to - from);
        CHECK(munmap(from, (size_t)(to - from)) == 0);
        CHECK(foreign_count < MAPPINGS);
        foreign[i].size = (size_t)(from - first);
        foreign[foreign_count].at = to;
        foreign[foreign_count++].size = (size_t)(end - to);
    }
    CHECK(covered == size);
}

#endif
