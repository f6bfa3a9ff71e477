// Which slots of a slab are reserved is as good as thrown by dice: two of 256, each slot as often
// as any other. The sum of squared deviations over 255 degrees of freedom exceeds 391 once in ten
// million runs. It would notice slots of which a quarter come from the lower half alone.
// build: secure the default one reserves none
// libc: skip it reserves none
// timeout: 60
// promise: 19
#include "slabs.h"

enum { BEGUN = 4000 };

int main(void)
{
    static unsigned counts[SLOTS], biased[SLOTS];
    fill_slabs(63, 64, BEGUN);
    unsigned reserved = 0;
    /* The first one may have given slots to others before. */
    for (size_t slab = 1; slab < BEGUN; slab++)
        for (size_t slot = 0; slot < SLOTS; slot++)
            if (!was_handed_out(slab, slot)) {
                counts[slot]++;
                biased[reserved % 4 ? slot : slot / 2]++;
                reserved++;
            }
    CHECK(reserved == 2 * (BEGUN - 1));
    double sum = chi_square_uniform(counts, SLOTS), of_biased = chi_square_uniform(biased, SLOTS);
    announce_number("sum", (size_t)sum);
    announce_number("biased", (size_t)of_biased);
    CHECK(sum < 391);
    CHECK(of_biased > 391);
    return 0;
}
