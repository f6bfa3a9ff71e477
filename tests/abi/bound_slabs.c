// Law 4, slabs by bytes, where no time passes: a program that goes through phases has an eighth
// more than its largest, and 256 KiB, resident, and not the sum of them.
// build: default its sum knows no quarantine, and descriptors of half the size
// env: TOFT_PARTITIONS=1
// env: TOFT_RECLAIM=off
// libc: skip it has other bounds
#include "bound.h"

static const size_t phase[] = {64, 1024, 96, 2048, 512, 144, 16384, 4096, 48, 768};
enum { PHASES = sizeof phase / sizeof *phase, PHASE = 32 << 20 };
static char *block[PHASE / 48 + 1];

int main(void)
{
    memset(block, 0, sizeof block);
    bound_begin();
    size_t peak = 0, slabs = 0, current = 0;
    for (int i = 0; i < PHASES; i++) {
        size_t slot = phase[i], n = PHASE / slot;
        for (size_t j = 0; j < n; j++) {
            CHECK(block[j] = malloc(slot));
            memset(block[j], 1, slot);
        }
        /* In use: this phase's slabs, and of each earlier one the slab that malloc draws from. */
        size_t used = slab_bytes_for(n, slot) + current;
        current += slots_of_slab(slot) * slot;
        slabs += slabs_for(n, slot);
        peak = used > peak ? used : peak;
        struct bound b = {
            .live = used,
            .dirty = peak - used + room_over(peak),
            .metadata = descriptors_of(slabs) + heap_of(1),
        };
        within("a phase", b);
        for (size_t j = 0; j < n; j++)
            free(block[j]);
        b.live = 0;
        b.dirty = peak + room_over(peak);
        within("between phases", b);
        driven("between phases", b, b.dirty);
    }
    return 0;
}
