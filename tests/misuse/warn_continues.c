// build: default the secure one ends the process
// TOFT_ON_MISUSE=warn: every bad call is named, counted and ignored; realloc of a bad pointer gives
// NULL and EINVAL, malloc_usable_size 0; the block stays as it was and the program goes on.
// env: TOFT_ON_MISUSE=warn
// stderr: toft: double free: free({p}): this 64-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// stderr: toft: double free: realloc({p}): this 64-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// stderr: toft: double free: malloc_usable_size({p}): this 64-byte block is already free (small slab, slot {n}, partition {n}; call site {addr})
// stderr: toft: invalid free: free({q8}): 8 bytes inside the 64-byte block at {q} (small slab, slot {n}, partition {n}, live; call site {addr})
// stderr: toft: invalid free: realloc({q8}): 8 bytes inside the 64-byte block at {q} (small slab, slot {n}, partition {n}, live; call site {addr})
// stderr: toft: invalid free: malloc_usable_size({q8}): 8 bytes inside the 64-byte block at {q} (small slab, slot {n}, partition {n}, live; call site {addr})
// stderr: toft: invalid free: free({stack}): not a block of this allocator
// stderr: toft: invalid free: realloc({stack}): not a block of this allocator
// stderr: toft: invalid free: malloc_usable_size({stack}): not a block of this allocator
// libc: skip it has no such option
// promise: 4 28
#include "common.h"

int main(void)
{
    char local[64], *p = launder(malloc(64)), *q = launder(malloc(64));
    CHECK(p && q);
    fill(q, 64, 1);
    announce("p", p);
    announce("q", q);
    announce("q8", q + 8);
    announce("stack", launder(local));
    free(p);
    void *bad[] = {p, q + 8, local};
    for (int i = 0; i < 3; i++) {
        errno = 0;
        free(launder(bad[i]));
        CHECK(errno == 0);
        CHECK(realloc(launder(bad[i]), 100) == NULL && errno == EINVAL);
        CHECK(malloc_usable_size(launder(bad[i])) == 0);
    }
    CHECK(filled(q, 64, 1));
    int (*stats)(int) = (int (*)(int))symbol("toft_stats_json");
    CHECK(stats);
    int ends[2];
    CHECK(pipe(ends) == 0);
    stats(ends[1]);
    static char text[65536];
    CHECK(read(ends[0], text, sizeof text - 1) > 0);
    CHECK(strstr(text, "\"misuse\":9,"));
    free(q);
    for (int i = 0; i < 10000; i++)
        free(malloc((size_t)i));
    return 0;
}
