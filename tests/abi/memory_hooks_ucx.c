// UCX, as Debian has it, learns of each range whose pages go: a cache of registrations that its
// handler keeps has no stale one. Without a handler pages go unseen, which shows that the test can
// fail. UCX patches libc's code (`bistro`, its default) or the loader's tables (`reloc`).
// libs: -lucm -lucs
// needs: /usr/include/ucm/api/ucm.h libucx-dev
// libc: skip its malloc calls these functions within the library, past the loader's tables
// build: default,secure each returns memory by other calls
// timeout: 120
// case: memory_hooks_ucx
// env: UCX_MEM_MMAP_HOOK_MODE=bistro
// run: handler
// run: none
// case: memory_hooks_ucx_tables
// env: UCX_MEM_MMAP_HOOK_MODE=reloc
// run: handler
#include "../hooks.h"
#include <ucm/api/ucm.h>

enum { BLOCKS = 32, STEPS = 800 };

static void unmapped(ucm_event_type_t type, ucm_event_t *event, void *argument)
{
    (void)type, (void)argument;
    seen(event->vm_unmapped.address, event->vm_unmapped.size);
}

/* In slabs and beyond, as buffers of messages have it. */
static size_t some_size(struct rng *random)
{
    switch (rng_below(random, 3)) {
    case 0: return 64 * 1024 + rng_below(random, 16) * PAGE;
    case 1: return (33 + rng_below(random, 64)) * PAGE;
    default: return (1 + rng_below(random, 12)) << 20;
    }
}

static void write_block(char *block, size_t size)
{
    memset(block, 1, size);
    register_block(block, size);
}

int main(int argc, char **argv)
{
    static char *block[BLOCKS];
    CHECK(argc == 2);
    int handled = !strcmp(argv[1], "handler");
    open_pagemap();
    if (handled)
        CHECK(ucm_set_event_handler(UCM_EVENT_VM_UNMAPPED, 100, unmapped, NULL) == UCS_OK);
    struct rng random = {1};
    for (int step = 0; step < STEPS; step++) {
        size_t k = rng_below(&random, BLOCKS), size = some_size(&random);
        free(block[k]);
        find_stale();
        CHECK((block[k] = malloc(size)));
        find_stale();
        write_block(block[k], size);
        if (step % 7 == 0) {
            size += rng_below(&random, 8) << 18;
            CHECK((block[k] = realloc(block[k], size)));
            find_stale();
            write_block(block[k], size);
        }
        if (step % 50 == 0)
            purge_all();
        find_stale();
    }
    fprintf(stdout, "%ld events, %ld registrations, %ld stale\n", events, registered, stale);
    CHECK(foreign == 0);
    CHECK(handled ? stale == 0 && events > 100 : stale > 10 && events == 0);
    return 0;
}
