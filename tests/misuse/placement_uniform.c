// Where walls stand in slabs, how many units are left out between two large blocks, and on which
// page of its unit a large block begins: each as often as a uniform choice makes it. Each sum of
// squared deviations exceeds its bound less than once in ten million runs. They would notice walls
// that stand at the first possible place in one slab of eight, gaps of which an eighth are none,
// and blocks of which an eighth begin on the first page.
// build: secure the default one has no walls
// libc: skip it has no walls
// timeout: 60
// promise: 9 19
#include "slabs.h"

enum {
    BEGUN = 1200,
    PAGE = 4096,
    BYTES = 240,
    PAGES = SLAB / PAGE,
    /* crates/toft-core/src/policy.rs: how far a sweep may come from the first block's end. */
    REACH_LEAST = 24 << 10,
    REACH_MOST = 48 << 10,
    UNIT = 64 << 10,
    GAPS = 16,
    LARGE = 4000,
};

/* The page of a slab's first wall: the first run of slots that are never handed out and that is
 * longer than reserved ones. */
static size_t first_wall(size_t slab)
{
    size_t run = 0;
    for (size_t slot = 0; slot < SLOTS; slot++) {
        run = was_handed_out(slab, slot) ? 0 : run + 1;
        if (run == 10)
            return ((slot - 9) * BYTES + PAGE - 1) / PAGE;
    }
    return 0;
}

static void walls(void)
{
    static unsigned counts[PAGES], biased[PAGES];
    static double expected[PAGES];
    fill_slabs(BYTES - 1, BYTES, BEGUN);
    size_t first = PAGES;
    for (int reach = REACH_LEAST; reach < REACH_MOST; reach++) {
        size_t page = ((1 + (size_t)reach / BYTES) * BYTES + PAGE - 1) / PAGE;
        expected[page] += (double)(BEGUN - 1) / (REACH_MOST - REACH_LEAST);
        first = page < first ? page : first;
    }
    for (size_t slab = 1; slab < BEGUN; slab++) {
        size_t page = first_wall(slab);
        CHECK(page && expected[page] > 0);
        counts[page]++;
        biased[slab % 8 ? page : first]++;
    }
    double sum = chi_square(counts, expected, PAGES), of_biased = chi_square(biased, expected, PAGES);
    announce_number("walls", (size_t)sum);
    announce_number("walls_biased", (size_t)of_biased);
    /* Over 6 degrees of freedom. */
    CHECK(sum < 44);
    CHECK(of_biased > 44);
}

static void large_blocks(void)
{
    static unsigned gaps[GAPS], biased_gaps[GAPS], pages[GAPS], biased_pages[GAPS];
    uintptr_t before = 0;
    size_t extent = SIZE_MAX;
    static uintptr_t all[LARGE];
    for (int i = 0; i < LARGE; i++) {
        all[i] = (uintptr_t)take(200000);
        CHECK(all[i]);
        if (before) {
            CHECK(all[i] > before);
            size_t units = all[i] / UNIT - before / UNIT;
            extent = units < extent ? units : extent;
        }
        before = all[i];
    }
    for (int i = 1; i < LARGE; i++) {
        size_t gap = all[i] / UNIT - all[i - 1] / UNIT - extent, page = all[i] % UNIT / PAGE;
        CHECK(gap < GAPS);
        gaps[gap]++;
        biased_gaps[i % 8 ? gap : 0]++;
        pages[page]++;
        biased_pages[i % 8 ? page : 0]++;
    }
    double sum = chi_square_uniform(gaps, GAPS), of_pages = chi_square_uniform(pages, GAPS);
    announce_number("gaps", (size_t)sum);
    announce_number("pages", (size_t)of_pages);
    /* Over 15 degrees of freedom. */
    CHECK(sum < 63 && of_pages < 63);
    CHECK(chi_square_uniform(biased_gaps, GAPS) > 63 && chi_square_uniform(biased_pages, GAPS) > 63);
}

int main(void)
{
    walls();
    large_blocks();
    return 0;
}
