// The inside of a sampled block is no block, for any call.
// env: TOFT_GUARDED=1
// env: TOFT_ON_MISUSE=warn
// stderr: toft: invalid free: free({q}): 16 bytes inside the {size}-byte block at {p} (guarded block, live; call site {addr})
// stderr: toft: invalid free: realloc({q}): 16 bytes inside the {size}-byte block at {p} (guarded block, live; call site {addr})
// stderr: toft: invalid free: malloc_usable_size({q}): 16 bytes inside the {size}-byte block at {p} (guarded block, live; call site {addr})
// stderr: toft: double free: realloc({p}): this {size}-byte block is already free (guarded block; call site {addr})
// build: default the secure one takes no TOFT_ON_MISUSE=warn
// libc: skip it has no such option
// promise: 4 28
#include "common.h"

int main(void)
{
    char *p = launder(malloc(64));
    CHECK(p);
    announce_block(p);
    announce("q", p + 16);
    free(launder(p + 16));
    CHECK(realloc(launder(p + 16), 100) == NULL && errno == EINVAL);
    CHECK(malloc_usable_size(launder(p + 16)) == 0);
    memset(p, 1, 64);
    free(p);
    CHECK(realloc(launder(p), 100) == NULL);
    return 0;
}
