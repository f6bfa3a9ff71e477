/* Which slots of small slabs are handed out, told by nothing but addresses. */
#ifndef TOFT_TESTS_SLABS_H
#define TOFT_TESTS_SLABS_H

#include "damage.h"

enum { SLAB = 64 << 10, SLOTS = 256, SLABS_MAX = 8192 };

/* The first addresses of slabs, in the order in which they are begun. */
static uintptr_t base[SLABS_MAX];
static size_t begun;

/* A bit for each slot of each of them. */
static uint64_t handed_out[SLABS_MAX][SLOTS / 64];

/* The number of the slab of an address. */
HELPER size_t slab_of(uintptr_t p)
{
    for (size_t slab = begun; slab-- > 0;)
        if (p - base[slab] < SLAB)
            return slab;
    CHECK(begun < SLABS_MAX);
    base[begun] = (uintptr_t)find_slab((void *)p).slab;
    return begun++;
}

NOINLINE void *take(size_t size)
{
    void *p = malloc(size);
    NO_TAIL_CALL();
    return p;
}

/* Fills `slabs` slabs and a little more with blocks of one size, in slots of `bytes`; returns the
 * number of slabs that were begun. */
HELPER size_t fill_slabs(size_t size, size_t bytes, size_t slabs)
{
    while (begun <= slabs) {
        uintptr_t p = (uintptr_t)take(size);
        CHECK(p);
        size_t slab = slab_of(p), slot = (p - base[slab]) / bytes;
        CHECK(slot < SLOTS && (p - base[slab]) % bytes == 0);
        handed_out[slab][slot / 64] |= (uint64_t)1 << (slot % 64);
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
