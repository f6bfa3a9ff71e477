// Law 4, empty slabs: as many bytes of them are kept as TOFT_SLAB_KEEP says, whatever slabs ever
// had in use.
// build: default its sum knows no quarantine, and descriptors of half the size
// env: TOFT_PARTITIONS=1
// env: TOFT_RECLAIM=off
// env: TOFT_SLAB_KEEP=8m
// libc: skip it has other bounds
#include "bound.h"

static const size_t size[] = {128, 2048, 1024};
enum { SIZES = sizeof size / sizeof *size, ALL = 32 << 20, KEEP = 8 << 20 };
static char *block[ALL / 128];

int main(void)
{
    memset(block, 0, sizeof block);
    bound_begin();
    size_t slabs = 0, current = 0;
    for (int i = 0; i < SIZES; i++) {
        size_t n = ALL / size[i];
        for (size_t j = 0; j < n; j++) {
            CHECK(block[j] = malloc(size[i]));
            memset(block[j], 1, size[i]);
        }
        slabs += slabs_for(n, size[i]);
        size_t slab = slots_of_slab(size[i]) * size[i];
        struct bound b = {
            .live = slabs_for(n, size[i]) * slab + current,
            /* What an earlier size has left, and was not used instead of fresh pages. */
            .dirty = i ? KEEP : 0,
            .metadata = descriptors_of(slabs) + heap_of(1),
        };
        within("all is live", b);
        for (size_t j = 0; j < n; j++)
            free(block[j]);
        /* Of each size the slab that malloc draws from. */
        current += slab;
        b.live = current;
        b.dirty = KEEP;
        within("all is free", b);
        struct bound least = b;
        least.live = 0;
        driven("all is free", least, KEEP);
    }
    return 0;
}
