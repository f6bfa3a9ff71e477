/* The descriptor of a block's slab, found by `toft_root` as a debugger finds it, and a stray write into it. */
#ifndef TOFT_TESTS_DAMAGE_H
#define TOFT_TESTS_DAMAGE_H

#include "common.h"
#include <sys/uio.h>

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
enum { SLABS = 7, SLABS_SPAN = 8, SLAB_BYTES = 21, SLAB_SLOTS = 23, SLAB_BASE = 24, SLAB_SIZE = 26, SLAB_REMOTE = 30 };

HELPER struct damage find_slab(void *block)
{
    const struct anchor *anchor = (const struct anchor *)symbol("toft_root");
    CHECK(anchor && strcmp(anchor->magic, "toft_root") == 0 && anchor->version == 5);
    const uint64_t *root = anchor->root;
    char *descriptor = (char *)root[SLABS], *end = descriptor + root[SLABS_SPAN];
    uint64_t at = (uint64_t)block, bytes = 0;
    for (; descriptor < end; descriptor += root[SLAB_BYTES]) {
        char copy[1024];
        CHECK(root[SLAB_BYTES] <= sizeof copy);
        struct iovec from = {descriptor, root[SLAB_BYTES]}, to = {copy, root[SLAB_BYTES]};
        CHECK(process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)root[SLAB_BYTES]);
        uint64_t base = *(uint64_t *)(copy + root[SLAB_BASE]);
        bytes = *(uint64_t *)(copy + root[SLAB_SLOTS]) * *(uint32_t *)(copy + root[SLAB_SIZE]);
        if (at >= base && at - base < bytes)
            break;
    }
    CHECK(descriptor < end);
    struct damage d = {descriptor, *(char **)(descriptor + root[SLAB_BASE]), root[SLAB_REMOTE],
                       *(uint64_t *)(descriptor + root[SLAB_SLOTS])};
    CHECK(d.slots > 64 && d.slots <= 256);
    return d;
}

/* The last slot, which malloc has not handed out, counts as freed by another thread. */
HELPER void damage(struct damage *d)
{
    uint64_t slot = d->slots - 1;
    ((uint64_t *)(d->descriptor + d->remote))[slot / 64] |= (uint64_t)1 << (slot % 64);
}

#endif
