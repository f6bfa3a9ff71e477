/* The descriptor of a block's slab, found by `toft_root` as a debugger finds it, and a stray write into it. */
#ifndef TOFT_TESTS_DAMAGE_H
#define TOFT_TESTS_DAMAGE_H

#include "common.h"

struct anchor {
    char magic[16];
    uint64_t version, words;
    const void *self;
    const uint64_t *root;
};

struct damage {
    char *descriptor, *slab;
    uint64_t remote, slots;
};

/* Words of the root, by their number (crates/toft-core/src/stats/root.rs). */
enum { DATA = 3, SMALL_SLABS = 7, SMALL_SLAB = 12, SLAB_BYTES = 20, SLAB_SLOTS = 22, SLAB_BASE = 23, SLAB_REMOTE = 29 };

HELPER struct damage find_slab(void *block)
{
    const struct anchor *anchor = (const struct anchor *)symbol("toft_root");
    CHECK(anchor && strcmp(anchor->magic, "toft_root") == 0 && anchor->version == 1);
    const uint64_t *root = anchor->root;
    uint64_t index = ((uint64_t)block - root[DATA]) / root[SMALL_SLAB];
    char *descriptor = (char *)root[SMALL_SLABS] + index * root[SLAB_BYTES];
    struct damage d = {descriptor, *(char **)(descriptor + root[SLAB_BASE]), root[SLAB_REMOTE],
                       *(uint64_t *)(descriptor + root[SLAB_SLOTS])};
    CHECK(d.slots > 64 && d.slots <= 256);
    CHECK((char *)block >= d.slab && (char *)block < d.slab + root[SMALL_SLAB]);
    return d;
}

/* The last slot, which malloc has not handed out, counts as freed by another thread. */
HELPER void damage(struct damage *d)
{
    uint64_t slot = d->slots - 1;
    ((uint64_t *)(d->descriptor + d->remote))[slot / 64] |= (uint64_t)1 << (slot % 64);
}

#endif
