/* Which slots of small slabs are handed out, told by nothing but addresses. */
#ifndef TOFT_TESTS_SLABS_H
#define TOFT_TESTS_SLABS_H

#include "common.h"

enum { SLAB = 64 << 10, SLOTS = 256, SLABS_MAX = 8192 };

/* A bit for each slot of each slab, from the lowest slab on. */
static uint64_t handed_out[SLABS_MAX][SLOTS / 64];

NOINLINE void *take(size_t size)
{
    void *p = malloc(size);
    NO_TAIL_CALL();
    return p;
}

/* Fills `slabs` slabs and a little more with blocks of one size, in slots of `bytes`; returns the
 * number of slabs that were begun. Slabs of one call site and size are one after another, except
 * that the site's first plot has only a few: those do not count. */
HELPER size_t fill_slabs(size_t size, size_t bytes, size_t slabs)
{
    uintptr_t lowest = (uintptr_t)take(size) / SLAB;
    size_t begun = 0;
    while (begun <= slabs) {
        uintptr_t p = (uintptr_t)take(size);
        CHECK(p);
        size_t slab = p / SLAB - lowest, slot = p % SLAB / bytes;
        if (slab >= SLABS_MAX && begun < 100) {
            lowest = p / SLAB;
            slab = begun = 0;
            memset(handed_out, 0, sizeof handed_out);
        }
        CHECK(slab < SLABS_MAX && slot < SLOTS && p % SLAB % bytes == 0);
        handed_out[slab][slot / 64] |= (uint64_t)1 << (slot % 64);
        begun = slab + 1 > begun ? slab + 1 : begun;
    }
    return begun;
}

HELPER int was_handed_out(size_t slab, size_t slot)
{
    return handed_out[slab][slot / 64] >> (slot % 64) & 1;
}

/* The sum of squared deviations of counts from what is expected of each. */
HELPER double chi_square(const unsigned *counts, const double *expected, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        if (expected[i] > 0)
            sum += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
    return sum;
}

/* The same, where all are expected as often. */
HELPER double chi_square_uniform(const unsigned *counts, size_t n)
{
    double expected = 0, sum = 0;
    for (size_t i = 0; i < n; i++)
        expected += (double)counts[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    return sum;
}

#endif
