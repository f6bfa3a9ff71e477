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
enum {
    SLABS = 9,
    PAGE_MAP = 10,
    MORE_SLABS = 11,
    MORE_SLABS_SPAN = 12,
    SLAB_BYTES = 26,
    SLAB_SLOTS = 28,
    SLAB_BASE = 29,
    SLAB_SIZE = 31,
    SLAB_REMOTE = 35
};

/* A block in a slab of more than 64 slots. The first slab of a bin may have no more. */
HELPER void *block_in_long_slab(void)
{
    void *p = NULL;
    for (int i = 0; i < 65; i++)
        CHECK(p = launder(malloc(64)));
    return p;
}

/* The descriptor in these bytes whose slab a block is in; NULL if none of those that are there. */
HELPER char *find_descriptor(const uint64_t *root, uint64_t begin, uint64_t bytes, uint64_t block)
{
    char copy[1024];
    uint64_t step = root[SLAB_BYTES];
    CHECK(step <= sizeof copy);
    for (uint64_t at = begin; at + step <= begin + bytes; at += step) {
        struct iovec from = {(void *)at, step}, to = {copy, step};
        if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)step)
            return NULL;
        uint64_t base = *(uint64_t *)(copy + root[SLAB_BASE]);
        if (block - base < *(uint64_t *)(copy + root[SLAB_SLOTS]) * *(uint32_t *)(copy + root[SLAB_SIZE]))
            return (char *)at;
    }
    return NULL;
}

HELPER struct damage find_slab(void *block)
{
    const struct anchor *anchor = (const struct anchor *)symbol("toft_root");
    CHECK(anchor && strcmp(anchor->magic, "toft_root") == 0 && anchor->version == 7);
    const uint64_t *root = anchor->root;
    char *descriptor = find_descriptor(root, root[SLABS], root[PAGE_MAP] - root[SLABS], (uint64_t)block);
    if (!descriptor)
        descriptor = find_descriptor(root, root[MORE_SLABS], root[MORE_SLABS_SPAN], (uint64_t)block);
    CHECK(descriptor);
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
